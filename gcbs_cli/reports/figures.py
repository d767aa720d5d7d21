"""The figures of a report, each declared once.

The JSON schema, the tables on the terminal, the page, history, compare and docs/reading-a-report.md loop over
`FIGURES`. To add a figure: compute it in `reports.losses` under its path, declare it here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

SHARE, COUNT, ROUGH = "{:.1%}", "{:,.0f}", "{:z.3f}"


@dataclass(frozen=True)
class Figure:
    """One figure of a report; it is None where there is no plan, or where it would be 0 / 0.

    path: its place in the JSON report. words: its name in tables; heading: the same above a narrow column.
    better: which way a plan should move it. show: views that have it beside JSON and the page: table (one report), many
    (one line a report), history, compare, trial (compare --train). random, spread: paths of the mean and the standard
    deviation of the same figure over random orders. meaning: what it is, in a sentence.
    """

    path: str
    words: str
    format: str = "{:.4f}"
    better: Literal["up", "down"] | None = None
    show: str = "table"
    heading: str = ""
    random: str | None = None
    spread: str | None = None
    meaning: str = ""

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


def _with_random(figure: Figure, meaning: str) -> list[Figure]:
    """A figure of the plan, and what random orders give beside it: on average, and in spread."""
    if figure.random is None:
        return [replace(figure, meaning=meaning)]
    folder = figure.path.rpartition(".")[0]
    random = f"{folder}.{figure.random}"
    spread = f"{folder}.random_std" if figure.random == "random_mean" else None
    found = [
        replace(figure, random=random, spread=spread, meaning=meaning),
        Figure(random, f"{figure.words}, random", figure.format, show="", meaning=f"{meaning}, in random batches"),
    ]
    if spread:
        said = f"{meaning}: standard deviation over random orders"
        found.append(Figure(spread, f"{figure.words}, spread", figure.format, show="", meaning=said))
    return found


def _of_every_order(name: str, meaning: str, show: str = "table") -> dict[Figure, str]:
    """A figure of the graph in the order of the input, in the plan's and in random orders."""
    return {
        Figure(f"{name}.identity", f"{name}, input", COUNT, show=""): f"{meaning}: in the order of the input",
        Figure(f"{name}.plan", name, COUNT, "down", show, random="random"): meaning,
    }


_DECLARED = {
    Figure("loss.global", "L_global", show="table many history"): "loss if every row saw all other rows",
    Figure(
        "loss.plan", "L_train", better="up", show="table many history", random="random_mean"
    ): "loss that training on the batches sees",
    Figure(
        "gap.plan", "gap", better="down", show="table history", random="random_mean"
    ): "the part of the loss over all pairs that training does not see",
    Figure(
        "gap.oracle", "gap, oracle", show="table many", heading="oracle"
    ): "gap if every row had its own hardest negatives; out of reach",
    Figure(
        "gap.reduction", "gap reduction", SHARE, "up", "table many history compare trial", "reduction"
    ): "how much smaller the plan's gap is than that of random batches",
    Figure(
        "gap.closed_share", "closed share", SHARE, "up", "table many compare", "closed"
    ): "what the plan closes, as a share of what the oracle could",
    Figure(
        "gap.masked.plan", "masked gap", better="down", show="", random="random_mean"
    ): "gap without suspected false negatives",
    Figure(
        "gap.masked.reduction", "masked reduction", SHARE, "up", "table history compare trial", "masked"
    ): "gap reduction without suspected false negatives",
    Figure(
        "bounds.translation", "translation bound", better="down", show=""
    ): "upper bound on the plan's gap (translation identity)",
    Figure(
        "bounds.logsumexp", "log-sum-exp bound", better="down", show=""
    ): "upper bound on the plan's gap (log-sum-exp)",
    Figure(
        "objective.translation.plan", "least in batch", better="up", show="", random="random"
    ): "mean over rows of the least similarity in the batch; as it rises, the translation bound falls",
    Figure(
        "objective.logsumexp.plan", "largest in batch", better="up", show="", random="random"
    ): "mean over rows of the largest similarity in the batch; as it rises, the log-sum-exp bound falls",
    Figure(
        "positive_probability.global", "p(positive), all", ROUGH, show=""
    ): "mean softmax probability of the positive among all rows",
    Figure(
        "positive_probability.plan", "p(positive)", ROUGH, "down", random="random"
    ): "mean softmax probability of the positive in its batch",
    Figure(
        "coordinates.global", "L_global, coordinates", show=""
    ): "loss where coordinates are normalised over all rows",
    Figure(
        "coordinates.plan", "L_train, coordinates", better="up", random="random_mean"
    ): "loss where coordinates are normalised over the rows of each batch",
    Figure(
        "accuracy.global", "accuracy, all", SHARE, show=""
    ): "share of rows whose positive is the nearest of all keys, x→y",
    Figure(
        "accuracy.plan", "accuracy", SHARE, "down", random="random_mean"
    ): "share of rows whose positive is the nearest of the keys they see, x→y",
    Figure("similarity.positive", "positives"): "mean similarity of the positive pairs",
    Figure("similarity.negative.global", "negatives, all", show=""): "mean similarity of all other pairs of x and y",
    Figure(
        "similarity.negative.plan", "negatives", better="up", random="random"
    ): "mean similarity of other pairs in one batch",
    Figure("graph.threshold", "threshold", show="table history", heading="t"): "similarity above which a pair is hard",
    Figure("graph.quantile", "quantile", "{:.6g}", show=""): "share of all similarities at or below the threshold",
    Figure("graph.edges", "hard pairs", COUNT): "pairs above the threshold",
    Figure("graph.isolated", "rows without", COUNT): "rows without a hard pair",
    Figure(
        "graph.isolated_batches", "batches without", COUNT, "down"
    ): "batches of the plan in which no row has a hard pair",
    Figure("graph.max_degree", "largest degree", COUNT, show=""): "hard pairs of the row that has the most",
    **_of_every_order("bandwidth", "largest distance in the order between the rows of a hard pair"),
    **_of_every_order("profile", "sum over rows of the distance to the farthest partner before them", ""),
    Figure(
        "in_batch_edge_share.plan", "in-batch share", SHARE, "up", "table compare", "edges", random="random"
    ): "share of the hard pairs whose two rows share a batch",
    Figure(
        "false_negatives.suspected_pairs",
        "suspected pairs",
        COUNT,
        "down",
        "table many compare trial",
        "suspects",
        random="random",
    ): "pairs in one batch that are about as similar as true pairs",
    Figure(
        "false_negatives.rows", "suspected rows", COUNT, "down"
    ): "rows in at least one suspected pair that shares a batch",
    Figure("false_negatives.margin", "margin", "{:g}", show=""): (
        "share of a positive's similarity from which on a pair is suspected, if it reaches the threshold too"
    ),
    Figure("alignment", "alignment", ROUGH): "mean squared distance of the positive pairs",
    Figure("uniformity.x", "uniformity of X", ROUGH): "spread of the rows of X over the sphere; lower is more even",
    Figure("uniformity.y", "uniformity of Y", ROUGH): "spread of the rows of Y over the sphere; lower is more even",
    Figure(
        "uniformity.rows", "rows for uniformity", COUNT
    ): "rows that uniformity was computed on; beyond 10,000, a sample",
    Figure(
        "mutual_information_bound", "information", ROUGH
    ): "lower bound on the mutual information of X and Y in nats: mean log(keys of a row) − L_train",
    Figure("partitions.parts", "parts", COUNT): "parts that were planned one by one",
    Figure(
        "partitions.edges_across", "across parts", SHARE, "down"
    ): "share of the hard pairs whose rows are in different parts",
}
FIGURES = [each for declared in _DECLARED.items() for each in _with_random(*declared)]
"""In the order of the JSON report."""
