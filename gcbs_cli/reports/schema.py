"""The report as others read it: `gcbs report --json`, one object for each loss, temperature and batch size.

Losses, gaps and bounds are in nats, those of the triplet loss in similarity, which has no bounds. What needs a plan
is null without one; a ratio 0/0 is null.
"""

from pydantic import BaseModel, ConfigDict


class ReportPart(BaseModel):
    """Frozen, and strict about its fields."""

    # `global_` is written and read as `global`, which Python keeps for itself.
    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        extra="forbid",
        alias_generator=lambda name: name.rstrip("_"),
    )


class LossFigures(ReportPart):
    """L_global, L_train of the plan, and of random batches (mean and standard deviation over the trials)."""

    global_: float
    plan: float | None
    random_mean: float
    random_std: float


class MaskedGap(ReportPart):
    """The gap with suspected false negatives left out of both sums."""

    plan: float | None
    random_mean: float
    reduction: float | None


class GapFigures(ReportPart):
    """L_global − L_train. `reduction`: 1 − plan / random; `closed_share`: (random − plan) / (random − oracle)."""

    plan: float | None
    random_mean: float
    random_std: float
    oracle: float
    reduction: float | None
    closed_share: float | None
    masked: MaskedGap


class Bounds(ReportPart):
    """Upper bounds on the plan's gap (DESIGN, definitions)."""

    translation: float | None
    logsumexp: float | None


class PositiveProbability(ReportPart):
    """Mean softmax probability of the positive: among all keys, in planned batches, in random ones."""

    global_: float
    plan: float | None
    random: float


class GraphPart(ReportPart):
    """The graph of hard negatives. `quantile`: the achieved share of entries at or below the threshold."""

    threshold: float
    quantile: float
    edges: int
    isolated: int
    max_degree: int


class OrderFigures(ReportPart):
    """Bandwidth or profile, in rows, of the input's order, of random orders (mean) and of the plan."""

    identity: float
    random: float
    plan: float | None


class EdgeShare(ReportPart):
    """Share of the graph's edges whose two rows share a batch."""

    random: float | None
    plan: float | None


class HeldApart(ReportPart):
    """Pairs of one kind: in the whole data, inside the plan's batches, in random batches (mean)."""

    total: int
    plan: int | None
    random: float


class FalseNegatives(ReportPart):
    """Suspected pairs inside the plan's batches, in random batches (mean), and the rows that the plan's touch.

    Beside them, not counted among them: `top`, the pairs of a row with one of its `top_ranks` hardest columns, and
    `duplicates`, the pairs with equal x or equal y; null where nobody asked.
    """

    suspected_pairs: int | None
    random: float
    rows: int | None
    top_ranks: int | None = None
    top: HeldApart | None = None
    duplicates: HeldApart | None = None


class Uniformity(ReportPart):
    """log mean exp(−2 ‖u_i − u_j‖²) over pairs of one side."""

    x: float
    y: float


class CrossCheck(ReportPart):
    """The plan's gap on some rows (all with --verify), once more in float64, in nats.

    `gap`: its mean over these rows; `difference`: how far the report's own mean is from it; `tolerance`: how far
    rounding can take them apart at this temperature.
    """

    rows: int
    gap: float
    difference: float
    tolerance: float


class PartitionCost(ReportPart):
    """What planning in parts cost. `edges_across`: share of the hard pairs that lie in different parts; `one_graph`:
    gap reduction of a plan of all rows at once with the same settings, null where none was made; `lost`: the share of
    it that the parts lose, below 0 where they gain.
    """

    parts: int
    edges_across: float | None
    one_graph: float | None
    lost: float | None


class GapReport(ReportPart):
    """One report: a loss, a temperature, a batch size."""

    n: int
    dim: int
    batch_size: int
    temperature: float
    loss_kind: str
    loss: LossFigures
    gap: GapFigures
    bounds: Bounds
    positive_probability: PositiveProbability
    graph: GraphPart
    bandwidth: OrderFigures
    profile: OrderFigures
    in_batch_edge_share: EdgeShare
    false_negatives: FalseNegatives
    alignment: float
    uniformity: Uniformity
    mutual_information_bound: float | None
    cross_check: CrossCheck | None = None
    partitions: PartitionCost | None = None
    timings: dict[str, float]

    @property
    def unit(self) -> str:
        """What losses and gaps are measured in."""
        return "similarity" if self.loss_kind == "triplet" else "nats"


class GapReports(ReportPart):
    """Several reports: the same data and plan at several losses, temperatures or batch sizes."""

    results: list[GapReport]
