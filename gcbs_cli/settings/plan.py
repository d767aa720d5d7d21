"""What a plan can be asked for: the settings that the command line and the Python API share."""

from dataclasses import asdict, dataclass, field
from typing import Any

from gcbs_cli.system.errors import BadInput

DEFAULT_BATCH_SIZE = 64
DEFAULT_TEMPERATURE = 0.05
DEFAULT_QUANTILE = 0.999
DEFAULT_TOP = 16
DEFAULT_MARGIN = 0.95
"""Share of a positive's similarity from which on a negative is suspected to be a right answer."""
GRAPH_KINDS = ("quantile", "top-m")
LARGEST_SIMILARITY = 1.0 + 2.0**-20
"""Rows of unit length up to float32 rounding: their own product can pass 1, and with it the quantile of duplicates."""


@dataclass(frozen=True)
class GraphSettings:
    """Which entries of X Yᵀ make an edge.

    kind `quantile`: those above the q-quantile, about `per_row` a row, or above a threshold given; `top-m`: the `top`
    hardest of each row and of each column. t, from which on a pair can be a suspected false negative, is the quantile's
    for both. `rank_window` (p, m): only ranks p to p + m − 1 of each row, and only where both rows have each other
    there (B3: Breaking the Batch Barrier of contrastive learning, 2025).
    """

    quantile: float | None = None
    per_row: float | None = None
    threshold: float | None = None
    method: str = "sample"
    kind: str = "quantile"
    top: int = DEFAULT_TOP
    rank_window: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.kind not in GRAPH_KINDS:
            raise BadInput(f"--graph {self.kind}: expected {' or '.join(GRAPH_KINDS)}")
        if self.top < 1:
            raise BadInput(f"--top {self.top}: expected at least 1 neighbour a row")
        if self.rank_window is not None and (self.rank_window[0] < 0 or self.rank_window[1] < 1):
            skipped, width = self.rank_window
            raise BadInput(f"--rank-window {skipped}:{width}: expected p:m, to skip p >= 0 ranks and keep m >= 1")
        given = {"--quantile": self.quantile, "--per-row": self.per_row, "--threshold": self.threshold}
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise BadInput(f"{' and '.join(named)}: give one of them; each says where the edges begin")
        if self.method not in ("sample", "chunks", "exact"):
            raise BadInput(f"--quantile-method {self.method}: expected sample, chunks or exact")
        if self.quantile is not None and not 0.0 < self.quantile < 1.0:
            raise BadInput(f"--quantile {self.quantile}: expected a number between 0 and 1, such as 0.999")
        if self.threshold is not None and not abs(self.threshold) <= LARGEST_SIMILARITY:
            raise BadInput(f"--threshold {self.threshold}: expected a cosine similarity, between -1 and 1")

    @property
    def uses_threshold(self) -> bool:
        """Whether t decides the edges."""
        return self.kind == "quantile" and self.rank_window is None

    def requested_quantile(self, rows: int) -> float | None:
        """q for N rows; None where a threshold was given. Raises BadInput when --per-row does not fit N."""
        if self.threshold is not None:
            return None
        if self.per_row is None:
            return DEFAULT_QUANTILE if self.quantile is None else self.quantile
        if not 0.0 < self.per_row < rows:
            raise BadInput(f"--per-row {self.per_row:g}: expected more than 0 and fewer than the {rows:,} rows")
        return 1.0 - self.per_row / rows


@dataclass(frozen=True)
class FalseNegativeSettings:
    """Which pairs a plan suspects of being right answers, and what it does about them.

    `margin`: s_ij >= margin · s_ii or margin · s_jj, from t on. Suspected pairs lose their edge, and one inside a batch
    costs the refinement `weight`.
    """

    margin: float | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_margin(self.margin)
        if not 0.0 <= self.weight < float("inf"):
            raise BadInput(f"--fn-weight {self.weight}: expected 0 or more, such as 1")

    @property
    def active(self) -> bool:
        """Whether any pair can be suspected."""
        return self.margin is not None


@dataclass(frozen=True)
class BatchOrderSettings:
    """What happens to finished batches. The short batch stays last.

    `group_size` s: hard groups of s mixed at random into batches; `shuffle`: the batches in random order.
    """

    group_size: int | None = None
    shuffle: bool = False

    def check_batch_size(self, batch_size: int) -> None:
        """Raises BadInput when groups do not fill batches."""
        if self.group_size is not None and (self.group_size < 1 or batch_size % self.group_size):
            raise BadInput(f"--group-size {self.group_size}: expected a divisor of --batch-size {batch_size}")


@dataclass(frozen=True)
class PlanSettings:
    """Everything that decides a plan, and how it is computed.

    `temperature` decides what the refinement and weighted graphs count. `seed` decides the sample and every draw.
    `refine`: local search after the method, for at most `refine_seconds`. `no_duplicates`: rows of equal x or equal y
    never share a batch. `method_options`: what one method alone understands. `tile_rows` (--chunk-rows), `max_memory`
    (bytes) and `device` change how the work is done, never the permutation.
    """

    batch_size: int = DEFAULT_BATCH_SIZE
    graph: GraphSettings = field(default_factory=GraphSettings)
    method: str = "rcm"
    temperature: float = DEFAULT_TEMPERATURE
    seed: int = 0
    drop_last: bool = False
    device: str = "auto"
    tile_rows: int | None = None
    max_memory: int | None = None
    max_edges: int | None = None
    world_size: int | None = None
    gather: bool = False
    refine: bool = False
    refine_seconds: float | None = None
    false_negatives: FalseNegativeSettings = field(default_factory=FalseNegativeSettings)
    no_duplicates: bool = False
    batch_order: BatchOrderSettings = field(default_factory=BatchOrderSettings)
    method_options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.batch_size < 2:
            raise BadInput(f"--batch-size {self.batch_size}: expected at least 2; a batch of one has no negatives")
        self.batch_order.check_batch_size(self.batch_size)
        if self.refine_seconds is not None and not self.refine_seconds > 0.0:
            raise BadInput(f"--time-limit {self.refine_seconds:g}: expected more than 0 seconds")
        check_ranks(self.batch_size, self.world_size, gather=self.gather)
        check_temperature(self.temperature)
        if self.seed < 0:
            raise BadInput(f"--seed {self.seed}: expected 0 or more")
        if self.tile_rows is not None and self.tile_rows < 1:
            raise BadInput(f"--chunk-rows {self.tile_rows}: expected at least 1")
        if self.max_edges is not None and self.max_edges < 1:
            raise BadInput(f"--max-edges {self.max_edges}: expected at least 1")

    def check_rows(self, rows: int) -> None:
        """Raises BadInput when the batch size does not fit the number of rows."""
        check_batch_size(self.batch_size, rows)
        full = rows // self.batch_size
        if self.world_size is not None and not self.gather and full < self.world_size:
            raise BadInput(
                f"--world-size {self.world_size}: the {rows:,} rows make {full} full batches of {self.batch_size}, "
                "fewer than one for each rank"
            )
        self.graph.requested_quantile(rows)

    def as_record(self) -> dict[str, Any]:
        """The settings as plain values, for the manifest."""
        return asdict(self)


def check_batch_size(batch_size: int, rows: int) -> None:
    """Raises BadInput unless 2 <= k <= N."""
    if not 2 <= batch_size <= rows:
        raise BadInput(f"--batch-size {batch_size}: expected between 2 and the {rows:,} rows of the data")


def check_ranks(batch_size: int, world_size: int | None, *, gather: bool) -> None:
    """Raises BadInput unless each of the ranks of a loss that gathers can take an equal part of a batch."""
    if world_size is not None and world_size < 1:
        raise BadInput(f"--world-size {world_size}: expected at least 1 rank")
    if gather and world_size is None:
        raise BadInput("--gather: say over how many ranks the loss gathers, with --world-size")
    if gather and batch_size % (world_size or 1):
        raise BadInput(
            f"--batch-size {batch_size}: not divisible by --world-size {world_size}; "
            "with --gather each rank takes k/W rows of every batch"
        )


def check_margin(margin: float | None) -> None:
    """Raises BadInput unless a margin is a share of a similarity that can be reached."""
    if margin is not None and not 0.0 <= margin <= 2.0:
        raise BadInput(f"--fn-margin {margin}: expected a share of the positive's similarity, such as 0.95")


def check_temperature(temperature: float) -> None:
    """Raises BadInput unless the temperature is a positive number that float32 can divide by."""
    if not 1e-6 <= temperature <= 1e6:
        raise BadInput(f"--temperature {temperature}: expected a number above 0, such as 0.05")
