"""The report as others read it: `gcbs report --json`, one object for each loss, batch size and temperature.

Losses, gaps and bounds are in nats, those of the triplet loss in similarity. Fields of a plan are None without one.
`reports.figures` takes from these models what tables, the page, history, compare and docs/reading-a-report.md show: to
add a figure, declare it here and compute it in `reports.losses` under its path.
"""

from dataclasses import dataclass
from keyword import iskeyword
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict

SHARE = "{:.1%}"
COUNT = "{:,.0f}"
ROUGH = "{:z.3f}"


@dataclass(frozen=True)
class Figure:
    """One figure of a report; it is None where there is no plan, or where it would be 0 / 0.

    words: its name in tables; heading: the same above a narrow column.
    show: views that have it beside JSON and the page: table (one report), many
    (one line a report), history, compare, trial (compare --train). random, spread: paths of the mean and the standard
    deviation of the same figure over random orders. meaning: what it is, in a sentence.
    path: its place in the JSON report.
    """

    words: str
    format: str = "{:.4f}"
    show: str = "table"
    heading: str = ""
    random: str | None = None
    meaning: str = ""
    path: str = ""

    @property
    def short(self) -> str:
        """The name above a column."""
        return self.heading or self.words

    def text(self, value: Any) -> str:
        """The value for people: – for None, an estimate with half the width of its interval."""
        if value is None:
            return "–"
        if hasattr(value, "low"):
            return f"{self.format.format(value.value)} ± {self.format.format(value.value - value.low)}"
        return self.format.format(value)


class ReportPart(BaseModel):
    """Frozen; unknown keys are those of another version."""

    # `global_` is written and read as `global`, which Python keeps for itself.
    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        extra="ignore",
        alias_generator=lambda name: name.rstrip("_"),
        use_attribute_docstrings=True,
    )


class OfRandom(ReportPart):
    """What random batches have on average."""

    random: float | None = None


class OverRandom(ReportPart):
    """What random batches have on average, and its standard deviation over random orders."""

    random_mean: float | None = None
    random_std: float | None = None


class LossFigures(ReportPart):
    """Means over rows of the loss."""

    global_: Annotated[float, Figure("L_global", show="table many history")]
    """Loss if every row saw all other rows."""
    plan: Annotated[float | None, Figure("L_train", show="table many history", random="random_mean")] = None
    """Loss that training on the batches sees."""
    random_mean: float
    random_std: float | None = None


class LearnableShare(ReportPart):
    """What orders plans as training does (benchmarks/RESULTS.md); None without a softmax over one positive."""

    plan: Annotated[
        float | None,
        Figure("learnable share", SHARE, "table history compare trial", "learnable", random="random_mean"),
    ] = None
    """Weight that the loss gives, in a row's batch, to negatives less similar than its positive."""
    random_mean: float | None = None
    random_std: float | None = None


class MaskedGap(ReportPart):
    """The gap with suspected pairs left out of both sums."""

    plan: Annotated[float | None, Figure("masked gap", show="", random="random_mean")] = None
    """Gap without suspected false negatives."""
    random_mean: float
    random_std: float | None = None
    reduction: Annotated[float | None, Figure("masked reduction", SHARE, "table history compare trial", "masked")] = (
        None
    )
    """Gap reduction without suspected false negatives."""


class Gap(ReportPart):
    """L_global − L_train, and how much of it the plan closes; a share is None where it is 0 / 0."""

    plan: Annotated[float | None, Figure("gap", show="table history", random="random_mean")] = None
    """The part of the loss over all pairs that training does not see."""
    random_mean: float
    random_std: float | None = None
    oracle: Annotated[float, Figure("gap, oracle", show="table many", heading="oracle")]
    """Gap if every row had its own hardest negatives; out of reach."""
    reduction: Annotated[
        float | None, Figure("gap reduction", SHARE, "table many history compare trial", "reduction")
    ] = None
    """How much smaller the plan's gap is than that of random batches."""
    closed_share: Annotated[float | None, Figure("closed share", SHARE, "table many compare", "closed")] = None
    """What the plan closes, as a share of what the oracle could."""
    masked: MaskedGap


class Bounds(ReportPart):
    """Upper bounds on the plan's gap; None for losses that have none."""

    translation: Annotated[float | None, Figure("translation bound", show="")] = None
    """Upper bound on the plan's gap (translation identity)."""
    logsumexp: Annotated[float | None, Figure("log-sum-exp bound", show="")] = None
    """Upper bound on the plan's gap (log-sum-exp)."""


class TranslationObjective(OfRandom):
    """What an order can do for the translation bound, in similarity."""

    plan: Annotated[float | None, Figure("least in batch", show="", random="random")] = None
    """Mean over rows of the least similarity in the batch; as it rises, the translation bound falls."""


class LogSumExpObjective(OfRandom):
    """What an order can do for the log-sum-exp bound, in similarity."""

    plan: Annotated[float | None, Figure("largest in batch", show="", random="random")] = None
    """Mean over rows of the largest similarity in the batch; as it rises, the log-sum-exp bound falls."""


class Objective(ReportPart):
    """The part of each bound that an order can raise."""

    translation: TranslationObjective = TranslationObjective()
    logsumexp: LogSumExpObjective = LogSumExpObjective()


class PositiveProbability(OfRandom):
    """Mean softmax probability of the positive, 0 to 1."""

    global_: Annotated[float, Figure("p(positive), all", ROUGH, show="")]
    """Mean softmax probability of the positive among all rows."""
    plan: Annotated[float | None, Figure("p(positive)", ROUGH, random="random")] = None
    """Mean softmax probability of the positive in its batch."""


class Coordinates(OverRandom):
    """The loss with `batch_coordinates`; None where that was not asked for."""

    global_: Annotated[float | None, Figure("L_global, coordinates", show="")] = None
    """Loss where coordinates are normalised over all rows."""
    plan: Annotated[float | None, Figure("L_train, coordinates", random="random_mean")] = None
    """Loss where coordinates are normalised over the rows of each batch."""


class Accuracy(OverRandom):
    """How often the positive is the nearest key, x→y; None where a row has several positives."""

    global_: Annotated[float | None, Figure("accuracy, all", SHARE, show="")] = None
    """Share of rows whose positive is the nearest of all keys, x→y."""
    plan: Annotated[float | None, Figure("accuracy", SHARE, random="random_mean")] = None
    """Share of rows whose positive is the nearest of the keys they see, x→y."""


class NegativeSimilarity(OfRandom):
    """Mean similarity of pairs that are no positives."""

    plan: Annotated[float | None, Figure("negatives", random="random")] = None
    """Mean similarity of other pairs in one batch."""


class Similarity(ReportPart):
    """Mean similarities, −1 to 1."""

    positive: Annotated[float, Figure("positives")]
    """Mean similarity of the positive pairs."""
    negative: NegativeSimilarity = NegativeSimilarity()


class Graph(ReportPart):
    """The graph of hard pairs."""

    threshold: Annotated[float, Figure("threshold", show="table history", heading="t")]
    """Similarity above which a pair is hard."""
    quantile: Annotated[float, Figure("quantile", "{:.6g}", show="")]
    """Share of all similarities at or below the threshold."""
    edges: Annotated[int, Figure("hard pairs", COUNT)]
    """Pairs above the threshold."""
    isolated: Annotated[int, Figure("rows without", COUNT)]
    """Rows without a hard pair."""


class Bandwidth(ReportPart):
    """Positions between the ends of a hard pair."""

    identity: Annotated[int, Figure("bandwidth, input", COUNT, show="")]
    """Largest distance in the order between the rows of a hard pair: in the order of the input."""
    plan: Annotated[int | None, Figure("bandwidth", COUNT, random="random")] = None
    """Largest distance in the order between the rows of a hard pair."""
    random: float


class Profile(ReportPart):
    """Positions from each row to its farthest partner before it, added up."""

    identity: Annotated[int, Figure("profile, input", COUNT, show="")]
    """Sum over rows of the distance to the farthest partner before them: in the order of the input."""
    plan: Annotated[int | None, Figure("profile", COUNT, "", random="random")] = None
    """Sum over rows of the distance to the farthest partner before them."""
    random: float


class InBatchEdgeShare(OfRandom):
    """Hard pairs that share a batch; None without a hard pair."""

    plan: Annotated[float | None, Figure("in-batch share", SHARE, "table compare", "edges", "random")] = None
    """Share of the hard pairs whose two rows share a batch."""


class FalseNegatives(ReportPart):
    """Suspected false negatives in the batches, judged by the margin and the graph's threshold."""

    suspected_pairs: Annotated[
        int | None, Figure("suspected pairs", COUNT, "table many compare trial", "suspects", "random")
    ] = None
    """Pairs in one batch that are about as similar as true pairs."""
    random: float
    rows: Annotated[int | None, Figure("suspected rows", COUNT)] = None
    """Rows in at least one suspected pair that shares a batch."""
    margin: Annotated[float, Figure("margin", "{:g}", show="")]
    """Share of a positive's similarity from which on a pair is suspected, if it reaches the threshold too."""


class Uniformity(ReportPart):
    """log mean exp(−2 ‖u_i − u_j‖²) over the pairs of one side, beyond 10,000 rows of a sample of 4,096."""

    x: Annotated[float, Figure("uniformity of X", ROUGH)]
    """Spread of the rows of X over the sphere; lower is more even."""
    y: Annotated[float, Figure("uniformity of Y", ROUGH)]
    """Spread of the rows of Y over the sphere; lower is more even."""


class ReportHead(ReportPart):
    """The data, the batches and the loss of a report."""

    n: int
    dim: int
    batch_size: int
    temperature: float
    loss_kind: str

    @property
    def unit(self) -> str:
        """What losses and gaps are measured in."""
        return "similarity" if self.loss_kind == "triplet" else "nats"

    def at(self, path: str) -> Any:
        """The value of the figure with this path, None where there is none."""
        value: Any = self
        for name in path.split("."):
            value = getattr(value, name + "_" * iskeyword(name), None)
        return value


class GapReport(ReportHead):
    """One report: a loss, a batch size, a temperature. Figures of a plan are None without one."""

    loss: LossFigures
    learnable_share: LearnableShare = LearnableShare()
    gap: Gap
    bounds: Bounds = Bounds()
    objective: Objective = Objective()
    positive_probability: PositiveProbability
    coordinates: Coordinates = Coordinates()
    accuracy: Accuracy = Accuracy()
    similarity: Similarity
    graph: Graph
    bandwidth: Bandwidth
    profile: Profile
    in_batch_edge_share: InBatchEdgeShare = InBatchEdgeShare()
    false_negatives: FalseNegatives
    alignment: Annotated[float, Figure("alignment", ROUGH)]
    """Mean squared distance of the positive pairs."""
    uniformity: Uniformity
    mutual_information_bound: Annotated[float | None, Figure("information", ROUGH)] = None
    """Lower bound on the mutual information of X and Y in nats: mean log(keys of a row) − L_train."""
    timings: dict[str, float] = {}
    """Seconds by step."""


class Estimate(ReportPart):
    """A figure from a sample, and the interval that covers the figure of all rows in 95 of 100 samples."""

    value: float
    low: float
    high: float


class SampledLoss(ReportPart):
    """Means over the rows of a sample of the loss."""

    global_: Estimate
    plan: Estimate
    random_mean: Estimate


class SampledGap(ReportPart):
    """The gap of a sample; the reduction is None where random batches leave none."""

    plan: Estimate
    random_mean: Estimate
    reduction: Estimate | None


class SampledReport(ReportHead):
    """What `rows` rows in `batches` whole batches of a plan say about all, with intervals."""

    sampled: Literal[True] = True
    rows: int
    batches: int
    confidence: float = 0.95
    loss: SampledLoss
    gap: SampledGap
    timings: dict[str, float] = {}
    """Seconds by step."""


class GapReports(ReportPart):
    """Several reports: the same data and plan at several losses, temperatures or batch sizes."""

    results: list[GapReport]
