"""The figures of a report, each declared once.

The JSON schema, the tables on the terminal, the page, history, compare and docs/reading-a-report.md loop over
`FIGURES`. To add a figure: compute it in `reports.build` under its path, declare it here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

SHARE, COUNT, ROUGH = "{:.1%}", "{:,.0f}", "{:.3f}"


@dataclass(frozen=True)
class Figure:
    """One figure of a report; it is None where there is no plan, or where it would be 0 / 0.

    path: its place in the JSON report. words: its name in tables; heading: the same above a narrow column.
    meaning: what it is, in a sentence. better: which way a plan should move it. show: views that have it beside JSON
    and the page: table (one report), many (one line a report), history, compare. random, spread: paths of the mean and
    the standard deviation of the same figure over random orders.
    """

    path: str
    words: str
    meaning: str
    format: str = "{:.4f}"
    better: Literal["up", "down"] | None = None
    show: str = "table"
    heading: str = ""
    random: str | None = None
    spread: str | None = None

    @property
    def short(self) -> str:
        """The name above a column."""
        return self.heading or self.words

    def text(self, value: Any) -> str:
        """The value for people: – for None, an estimate with half the width of its interval."""
        if value is None:
            return "–"
        low = getattr(value, "low", None)
        if low is None:
            return self.format.format(value)
        return f"{self.format.format(value.value)} ± {self.format.format(value.value - low)}"


def shown_in(view: str) -> Sequence[Figure]:
    """The figures of a view, in the list's order."""
    return [figure for figure in FIGURES if view in figure.show.split()]


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by path as nested dictionaries, as in JSON."""
    found: dict[str, Any] = {}
    for path, value in values.items():
        *folders, name = path.split(".")
        place = found
        for folder in folders:
            place = place.setdefault(folder, {})
        place[name] = value
    return found


def _and_random(*given: Any, spread: bool = False, **named: Any) -> list[Figure]:
    """A figure of the plan, as Figure takes it, and what random orders give: on average, and in spread."""
    plan = Figure(*given, **named)
    folder = plan.path.rpartition(".")[0]
    path, words, meaning = f"{folder}.random{'_mean' * spread}", f"{plan.words}, random", "in random batches"
    mean = Figure(path, words, f"{plan.meaning}, {meaning}", plan.format, show="")
    if not spread:
        return [replace(plan, random=mean.path), mean]
    meaning = f"{plan.meaning}: standard deviation over random orders"
    deviation = Figure(f"{folder}.random_std", f"{plan.words}, spread", meaning, plan.format, show="")
    return [replace(plan, random=mean.path, spread=deviation.path), mean, deviation]


def _of_every_order(name: str, meaning: str, show: str = "table") -> list[Figure]:
    """A figure of the graph in the order of the input, in the plan's and in random orders."""
    given = Figure(f"{name}.identity", f"{name}, input", f"{meaning}: in the order of the input", COUNT, show="")
    return [given, *_and_random(f"{name}.plan", name, meaning, COUNT, "down", show)]


FIGURES: list[Figure] = [
    Figure("loss.global", "L_global", "loss if every row saw all other rows", show="table many history"),
    *_and_random(
        "loss.plan",
        "L_train",
        "loss that training on the batches sees",
        better="up",
        show="table many history",
        spread=True,
    ),
    *_and_random(
        "gap.plan",
        "gap",
        "the part of the loss over all pairs that training does not see",
        better="down",
        show="table history",
        spread=True,
    ),
    Figure(
        "gap.oracle",
        "gap, oracle",
        "gap if every row had its own hardest negatives; out of reach",
        show="table many",
        heading="oracle",
    ),
    Figure(
        "gap.reduction",
        "gap reduction",
        "how much smaller the plan's gap is than that of random batches",
        SHARE,
        "up",
        "table many history compare",
        "reduction",
    ),
    Figure(
        "gap.closed_share",
        "closed share",
        "share of what the oracle could close that the plan closes",
        SHARE,
        "up",
        "table many compare",
        "closed",
    ),
    *_and_random(
        "gap.masked.plan", "masked gap", "gap without suspected false negatives", better="down", show="", spread=True
    ),
    Figure(
        "gap.masked.reduction",
        "masked reduction",
        "gap reduction without suspected false negatives",
        SHARE,
        "up",
        "table history compare",
        "masked",
    ),
    Figure(
        "bounds.translation",
        "translation bound",
        "upper bound on the plan's gap (translation identity)",
        better="down",
        show="",
    ),
    Figure(
        "bounds.logsumexp", "log-sum-exp bound", "upper bound on the plan's gap (log-sum-exp)", better="down", show=""
    ),
    *_and_random(
        "objective.translation.plan",
        "least in batch",
        "mean over rows of the least similarity in the batch, which the translation bound falls with",
        better="up",
        show="",
    ),
    *_and_random(
        "objective.logsumexp.plan",
        "largest in batch",
        "mean over rows of the largest similarity in the batch, which the log-sum-exp bound falls with",
        better="up",
        show="",
    ),
    Figure(
        "positive_probability.global",
        "p(positive), all",
        "mean softmax probability of the positive among all rows",
        ROUGH,
        show="",
    ),
    *_and_random(
        "positive_probability.plan",
        "p(positive)",
        "mean softmax probability of the positive in its batch",
        ROUGH,
        "down",
    ),
    Figure(
        "coordinates.global", "L_global, coordinates", "loss where coordinates are normalised over all rows", show=""
    ),
    *_and_random(
        "coordinates.plan",
        "L_train, coordinates",
        "loss where coordinates are normalised over the rows of each batch",
        better="up",
        spread=True,
    ),
    Figure(
        "accuracy.global",
        "accuracy, all",
        "share of rows whose positive is the nearest of all keys, x→y",
        SHARE,
        show="",
    ),
    *_and_random(
        "accuracy.plan",
        "accuracy",
        "share of rows whose positive is the nearest of the keys they see, x→y",
        SHARE,
        "down",
        spread=True,
    ),
    Figure("similarity.positive", "positives", "mean similarity of the positive pairs"),
    Figure("similarity.negative.global", "negatives, all", "mean similarity of all other pairs of x and y", show=""),
    *_and_random("similarity.negative.plan", "negatives", "mean similarity of other pairs in one batch", better="up"),
    Figure("graph.threshold", "threshold", "similarity above which a pair is hard", show="table history", heading="t"),
    Figure("graph.quantile", "quantile", "share of all similarities at or below the threshold", "{:.6g}", show=""),
    Figure("graph.edges", "hard pairs", "pairs above the threshold", COUNT),
    Figure("graph.isolated", "rows without", "rows that are in no hard pair", COUNT),
    Figure(
        "graph.isolated_batches",
        "batches without",
        "batches of the plan in which no row is in a hard pair",
        COUNT,
        "down",
    ),
    Figure("graph.max_degree", "largest degree", "hard pairs of the row that is in most", COUNT, show=""),
    *_of_every_order("bandwidth", "largest distance between hard pairs in the order, in rows"),
    *_of_every_order("profile", "sum over rows of the distance to the farthest partner before them", ""),
    *_and_random(
        "in_batch_edge_share.plan",
        "in-batch share",
        "share of the hard pairs whose two rows share a batch",
        SHARE,
        "up",
        "table compare",
        "edges",
    ),
    *_and_random(
        "false_negatives.suspected_pairs",
        "suspected pairs",
        "pairs in one batch that are about as similar as true pairs",
        COUNT,
        "down",
        "table many compare",
        "suspects",
    ),
    Figure(
        "false_negatives.rows",
        "suspected rows",
        "rows in at least one suspected pair that shares a batch",
        COUNT,
        "down",
    ),
    Figure("alignment", "alignment", "mean squared distance of the positive pairs", ROUGH),
    Figure("uniformity.x", "uniformity of X", "spread of the rows of X over the sphere; lower is more even", ROUGH),
    Figure("uniformity.y", "uniformity of Y", "spread of the rows of Y over the sphere; lower is more even", ROUGH),
    Figure("uniformity.rows", "rows for uniformity", "rows it was computed on, a sample of more than 10,000", COUNT),
    Figure(
        "mutual_information_bound",
        "information",
        "least mutual information of X and Y in nats: mean log of a row's keys − L_train",
        ROUGH,
    ),
    Figure("partitions.parts", "parts", "parts that were planned one by one", COUNT),
    Figure(
        "partitions.edges_across",
        "across parts",
        "share of the hard pairs whose rows are in different parts",
        SHARE,
        "down",
    ),
]
"""In the order of the JSON report."""
