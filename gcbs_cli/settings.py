"""What a plan can be asked for: the settings that the command line and the Python API share."""

from dataclasses import asdict, dataclass, field
from typing import Any

from gcbs_cli.errors import BadInput

DEFAULT_BATCH_SIZE = 64
DEFAULT_TEMPERATURE = 0.05
DEFAULT_QUANTILE = 0.999


@dataclass(frozen=True)
class GraphSettings:
    """Which entries of X Yᵀ make an edge: above the q-quantile, about `per_row` a row, or above a threshold given."""

    quantile: float | None = None
    per_row: float | None = None
    threshold: float | None = None
    method: str = "sample"

    def __post_init__(self) -> None:
        given = {"--quantile": self.quantile, "--per-row": self.per_row, "--threshold": self.threshold}
        named = [name for name, value in given.items() if value is not None]
        if len(named) > 1:
            raise BadInput(f"{' and '.join(named)}: give one of them; each says where the edges begin")
        if self.method not in ("sample", "chunks", "exact"):
            raise BadInput(f"--quantile-method {self.method}: expected sample, chunks or exact")
        if self.quantile is not None and not 0.0 < self.quantile < 1.0:
            raise BadInput(f"--quantile {self.quantile}: expected a number between 0 and 1, such as 0.999")
        if self.threshold is not None and not -1.0 <= self.threshold <= 1.0:
            raise BadInput(f"--threshold {self.threshold}: expected a cosine similarity, between -1 and 1")

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
class PlanSettings:
    """Everything that decides a plan, and how it is computed.

    `temperature` is recorded for the report. `seed` decides the sample and every draw. `tile_rows` (--chunk-rows),
    `max_memory` (bytes) and `device` change how the work is done, never the permutation.
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

    def __post_init__(self) -> None:
        if self.batch_size < 2:
            raise BadInput(f"--batch-size {self.batch_size}: expected at least 2; a batch of one has no negatives")
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


def check_temperature(temperature: float) -> None:
    """Raises BadInput unless the temperature is a positive number that float32 can divide by."""
    if not 1e-6 <= temperature <= 1e6:
        raise BadInput(f"--temperature {temperature}: expected a number above 0, such as 0.05")
