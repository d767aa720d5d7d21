"""The settings of a plan, which the command line and the Python API share."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from gcbs_cli.settings.model import Leaf, Settings, option
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import parse_size

DEFAULT_BATCH_SIZE = 64
DEFAULT_TEMPERATURE = 0.05
DEFAULT_PER_ROW = 32
"""Entries a row that make an edge; benchmarks/RESULTS.md has the ablation."""
DEFAULT_MARGIN = 0.95
"""Share of a positive's similarity from which on a negative is suspected to be a right answer."""
LARGEST_SIMILARITY = 1.1
"""Rows that are rounded to a grid can have a similarity above 1, and with it the quantile of equal rows."""
MOST_PARTS = 4096
"""The centres of more could not be learnt from a sample of 65,536 rows."""
MOST_CLUSTERS = 1024
"""Upper limit of the default number of clusters: k-means takes time in proportion."""
DEFAULT_NEIGHBOURS = {"knn-groups": 500, "neighbours": 3}
PRESET = "train"
PRESET_OPTIONS = {"graph": "top-m", "top": 32, "refine": True, "fn_margin": DEFAULT_MARGIN, "apart_from": 0.98}
"""What the options are by default with it; benchmarks/RESULTS.md says what was measured."""

GRAPH_PANEL = "Which pairs are hard"
WORK_PANEL = "How the work is done"

Method = Literal["rcm", "cm", "metis", "knn-groups", "words", "clusters", "neighbours", "random"]
Seed = Annotated[int, option(..., description="Decides every random draw.", ge=0)]
Trials = Annotated[int, Field(ge=1, le=10_000)]
"""Random orders to compare with; more would take hours and say no more."""


LARGEST_TEMPERATURE = 10.0
"""Beyond it, similarities of unit rows hardly differ, and what was given is a scale, as trainers name 1 / temperature.
"""


def _refuse_scale(temperature: float) -> float:
    if temperature > LARGEST_TEMPERATURE:
        raise BadInput(
            f"--temperature {temperature:g}: did you mean {1 / temperature:g}, which is a scale of {temperature:g}?"
        )
    return temperature


Temperature = Annotated[
    float,
    AfterValidator(_refuse_scale),
    option(..., "-t", description="Temperature of the loss: 1 / scale.", ge=1e-6),
]
Device = Annotated[
    str,
    option(
        ..., description="auto, cpu, cuda, cuda:INDEX, or several GPUs: cuda:0,1,... or cuda:all.", panel=WORK_PANEL
    ),
]
Margin = Annotated[float, Field(ge=0.0, le=2.0)]
Similarity = Annotated[float, Field(ge=-LARGEST_SIMILARITY, le=LARGEST_SIMILARITY)]


def _rank_window(value: Any) -> Any:
    """`30:100` as its two numbers."""
    skipped, kept = value.split(":") if isinstance(value, str) else value
    return skipped, kept


Size = Annotated[
    Annotated[int, BeforeValidator(parse_size)] | None,
    option(..., metavar="SIZE", expected="a size such as 800M or 4G"),
]
"""Bytes, or such a text."""


class ThresholdSettings(Settings, panel=GRAPH_PANEL):
    """t, from which on an entry of X Yᵀ is large."""

    quantile: float | None = option(None, gt=0, lt=1, not_with="per_row threshold")
    """Pairs above this quantile of all similarities are edges; positive pairs do not count. [default: that of
    --per-row]
    """
    per_row: float | None = option(None, gt=0, not_with="threshold")
    """The quantile as the number of entries expected in each row, m: q = 1 − m / (N − 1). [default: 32, at most half
    of a row]
    """
    threshold: Similarity | None = None
    """Pairs above this similarity are edges; nothing is estimated."""
    quantile_method: Literal["sample", "chunks", "exact"] = "sample"
    """sample: random rows × random columns; chunks: median over chunks of rows (GCBS); exact: all entries."""

    def entries_per_row(self, rows: int) -> float | None:
        """m for N rows; None where a quantile or a threshold was given. Raises BadInput if --per-row does not fit N."""
        if self.quantile is not None or self.threshold is not None:
            return None
        if self.per_row is None:
            return min(DEFAULT_PER_ROW, (rows - 1) / 2)
        if not self.per_row < rows - 1:
            raise BadInput(f"--per-row {self.per_row:g}: expected fewer than the {rows - 1:,} other rows")
        return self.per_row

    def requested_quantile(self, rows: int) -> float | None:
        """q for N rows; None where a threshold was given. Raises BadInput when --per-row does not fit N."""
        per_row = self.entries_per_row(rows)
        return self.quantile if per_row is None else 1.0 - per_row / (rows - 1)


class GraphSettings(ThresholdSettings, panel=GRAPH_PANEL):
    """Which entries of X Yᵀ make an edge; the rank window is B3's (Breaking the Batch Barrier, 2025)."""

    graph: Literal["quantile", "top-m"] = "quantile"
    """quantile: pairs above the threshold; top-m: the --top hardest of each row, so that every row has some."""
    top: int = option(16, ge=1, only_with="graph=top-m")
    """How many of its hardest pairs each row keeps with --graph top-m, in both directions."""
    rank_window: Annotated[tuple[NonNegativeInt, PositiveInt], BeforeValidator(_rank_window)] | None = option(
        None, metavar="P:M", expected="P:M such as 30:100, to skip P ranks and keep the next M >= 1"
    )
    """Join two rows only where each is among ranks P to P+M−1 of the other (B3)."""
    fn_margin: Margin | None = None
    """A pair is too hard where its similarity is at least this fraction of either row's positive, such as 1: its edge
    is dropped, and the refinement keeps its rows apart.
    """
    apart_from: Similarity | None = None
    """Keep near duplicates apart where there is room: rows of an edge whose x or y are this similar, such as 0.98."""

    @property
    def avoids(self) -> bool:
        """Whether some edges are better kept apart."""
        return self.fn_margin is not None or self.apart_from is not None

    @property
    def uses_threshold(self) -> bool:
        """Whether t decides the edges."""
        return self.graph == "quantile" and self.rank_window is None


class BatchOrderSettings(Settings, panel="What batches hold"):
    """What happens to finished batches. The short batch stays last."""

    group_size: int | None = option(None, ge=1)
    """Plan hard groups of this size and mix them at random into batches: 1 is random, k as hard as the plan."""
    shuffle_batches: bool = False
    """Put the full batches in random order."""


class BscSettings(Settings, panel="BSC (--method knn-groups, words, clusters, neighbours)"):
    """How groups are made (Chernyavskiy et al., Batch-Softmax Contrastive Loss, NAACL 2022)."""

    bsc_group_size: int = option(8, ge=2, le=1 << 31, only_with="method=knn-groups|words|clusters|neighbours")
    """Maximum rows per group."""
    bsc_neighbours: int | None = option(None, ge=1, only_with="method=knn-groups|neighbours")
    """Nearest rows considered. [default: 500 for knn-groups, 3 for neighbours]"""
    bsc_by: Literal["x", "y", "both"] = option("both", only_with="method=knn-groups|clusters|neighbours")
    """Compare rows by x, by y or by the mean of both similarities."""
    bsc_skip_identical: bool = option(False, only_with="method=knn-groups")
    """knn-groups: skip neighbours with the same embedding."""
    bsc_clusters: int | None = option(None, ge=1, only_with="method=clusters")
    """clusters: how many. [default: one for each batch, 1,024 at most]"""
    bsc_words: int = option(1, ge=1, only_with="method=words|neighbours")
    """Words (or neighbours) per shingle."""
    bsc_shingle: Literal["subset", "consecutive"] = option("subset", only_with="method=words")
    """Which words of a text: any of them (algorithm 2), or consecutive ones."""


class RankSettings(Settings, panel="Ranks"):
    """The ranks that train on a plan."""

    world_size: int | None = option(None, ge=1)
    """Number of ranks W that train on the plan."""
    gather: bool = option(False, off="--no-gather", only_with="world_size")
    """The loss gathers over ranks: each rank takes k/W rows of every batch."""


class WorkSettings(Settings, panel=WORK_PANEL):
    """How the work is done; none of it changes the result."""

    device: Device = "auto"
    chunk_rows: int | None = option(None, ge=1)
    """Rows per tile of the pass; changes memory and speed, never the result."""
    max_memory: Size = None
    """Stop before the pass if it would need more memory than about this, such as 8G. [default: most of what is free]"""


class PlanWorkSettings(WorkSettings, panel=WORK_PANEL):
    """How a plan is made: whole, or part by part."""

    partitions: Annotated[int, Field(ge=1, le=MOST_PARTS)] | Literal["auto"] | None = option(
        None, metavar="NUMBER|auto", expected=f"auto or a number from 1 to {MOST_PARTS:,}"
    )
    """Number of parts of similar rows, one in memory at a time; auto: at most 131,072 rows each, fewer if
    --max-memory needs it. Quantile and top-m lists apply within a part.
    """
    engine: Literal["local", "ray"] = option("local", only_with="partitions")
    """Where parts are planned: local, or ray: on a Ray cluster (gcbs[ray])."""
    address: str = option("auto", only_with="engine=ray")
    """Address of the Ray cluster to join; local starts one on this machine."""


class PlanSettings(GraphSettings, BatchOrderSettings, BscSettings, RankSettings, PlanWorkSettings):
    """Everything that decides a plan, and how it is computed."""

    batch_size: int = option(DEFAULT_BATCH_SIZE, "-k", ge=2)
    """Number of pairs that one loss sees together, k."""
    preset: Literal["train"] | None = None
    """A set of defaults. train: what trained the best models, with negatives less similar than the positives;
    --dry-run shows the options. [default: none: GCBS's plan]
    """
    method: Method = option("rcm", metavar="METHOD")
    """rcm: reverse Cuthill–McKee; cm: the same unreversed; metis: parts of the graph; knn-groups, words, clusters,
    neighbours: the shufflings of batch-softmax contrast (BSC); random.
    """
    temperature: Temperature = DEFAULT_TEMPERATURE
    drop_last: bool = False
    """The trainer drops the short last batch; changes only what is reported."""
    seed: Seed = 0
    refine: bool = option(False, off="--no-refine")
    """After the method, swap rows between batches, until it no longer pays, to raise their learnable share: the weight
    that the loss gives to negatives less similar than the positive.
    """
    no_duplicates: bool = False
    """Rows with equal x or equal y never share a batch."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, values: dict[str, Any]) -> dict[str, Any]:
        return {**preset_defaults(values.get("preset")), **values}

    def default_of(self, leaf: Leaf) -> Any:
        """The preset's, where it has one."""
        return preset_defaults(self.preset).get(leaf.name, leaf.default)

    @model_validator(mode="after")
    def _check_batch_size(self) -> Self:
        if self.batch_size % (self.group_size or 1):
            raise BadInput(f"--group-size {self.group_size}: expected a divisor of --batch-size {self.batch_size}")
        if self.gather and self.batch_size % (self.world_size or 1):
            raise BadInput(
                f"--batch-size {self.batch_size}: not divisible by --world-size {self.world_size}; "
                "with --gather each rank takes k/W rows of every batch"
            )
        return self

    def check_rows(self, rows: int) -> None:
        """Raises BadInput when the settings do not fit the number of rows."""
        check_batch_size(self.batch_size, rows)
        full, world = rows // self.batch_size, self.world_size
        if world is not None and not self.gather and full < world:
            raise BadInput(
                f"--world-size {world}: the {rows:,} rows make {full} full batches of {self.batch_size}, "
                "fewer than one for each rank"
            )
        self.requested_quantile(rows)


def preset_defaults(name: Any) -> dict[str, Any]:
    """The options that the preset sets, nothing without it."""
    return PRESET_OPTIONS if name == PRESET else {}


def check_batch_size(batch_size: int, rows: int) -> None:
    """Raises BadInput for a batch of more than all rows."""
    if batch_size > rows:
        raise BadInput(f"--batch-size {batch_size}: expected 2 to {rows:,}, the number of rows")
