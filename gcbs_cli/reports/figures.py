"""The figures of a report, each declared once.

The JSON schema, the tables on the terminal, the page, history, compare and docs/reading-a-report.md loop over
`FIGURES`. To add a figure: compute it in `reports.measured`, declare it here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from gcbs_cli.reports.measured import Measured

Value = Callable[["Measured"], float | int | None]

SHARE, COUNT, ROUGH = "{:.1%}", "{:,.0f}", "{:.3f}"
Better = Literal["up", "down"] | None


@dataclass(frozen=True)
class Figure:
    """One figure of a report.

    path: its place in the JSON report. words: its name in tables; heading: the same above a narrow column.
    meaning: what it is, in a sentence. value: None where there is no plan, or where it would be 0 / 0.
    better: which way a plan should move it. show: views that have it beside JSON and the page: table (one report),
    many (one line a report), history, compare. random: path of the same figure of random batches, shown beside it.
    """

    path: str
    words: str
    meaning: str
    value: Value
    format: str = "{:.4f}"
    better: Better = None
    show: str = ""
    heading: str = ""
    random: str | None = None

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


def _against_random(
    path: str,
    words: str,
    meaning: str,
    name: str,
    format: str = "{:.4f}",
    better: Better = None,
    show: str = "",
    heading: str = "",
    *,
    random: str = "random",
    spread: bool = False,
) -> list[Figure]:
    """A figure of orders (`name` in `OrderValues`): the plan's, and what random orders give, on average and in spread.

    random: the key of the average, beside that of the plan.
    """
    folder = path.rpartition(".")[0]
    figures = [
        Figure(
            path,
            words,
            meaning,
            lambda measured: getattr(measured.plan, name, None),
            format,
            better,
            show,
            heading,
            f"{folder}.{random}",
        ),
        Figure(
            f"{folder}.{random}",
            f"{words}, random",
            f"{meaning}, in random batches",
            lambda measured: measured.random_mean(name),
            format,
        ),
    ]
    if spread:
        deviation = Figure(
            f"{folder}.random_std",
            f"{words}, spread",
            f"{meaning}: standard deviation over random orders",
            lambda measured: measured.random_std(name),
            format,
        )
        figures.append(deviation)
    return figures


def _of_every_order(name: str, meaning: str, show: str = "") -> list[Figure]:
    """A figure of the graph in the order of the input, in the plan's and in random orders."""
    return [
        Figure(
            f"{name}.identity",
            f"{name}, input",
            f"{meaning}: in the order of the input",
            lambda measured: getattr(measured.identity, name),
            COUNT,
        ),
        *_against_random(f"{name}.plan", name, meaning, name, COUNT, "down", show),
    ]


FIGURES: list[Figure] = [
    Figure(
        "loss.global",
        "L_global",
        "loss if every row saw all other rows",
        lambda measured: measured.of_rows("global_loss"),
        show="table many history",
    ),
    *_against_random(
        "loss.plan",
        "L_train",
        "loss that training on the batches sees",
        "train_loss",
        better="up",
        show="table many history",
        random="random_mean",
        spread=True,
    ),
    *_against_random(
        "gap.plan",
        "gap",
        "the part of the loss over all pairs that training does not see",
        "gap",
        better="down",
        show="table history",
        random="random_mean",
        spread=True,
    ),
    Figure(
        "gap.oracle",
        "gap, oracle",
        "gap if every row had its own hardest negatives; out of reach",
        lambda measured: measured.of_rows("oracle_gap"),
        show="table many",
        heading="oracle",
    ),
    Figure(
        "gap.reduction",
        "gap reduction",
        "how much smaller the plan's gap is than that of random batches",
        lambda measured: measured.reduction("gap"),
        SHARE,
        "up",
        "table many history compare",
        "reduction",
    ),
    Figure(
        "gap.closed_share",
        "closed share",
        "share of what the oracle could close that the plan closes",
        lambda measured: measured.closed_share,
        SHARE,
        "up",
        "table many compare",
        "closed",
    ),
    *_against_random(
        "gap.masked.plan",
        "masked gap",
        "gap without suspected false negatives",
        "masked_gap",
        better="down",
        random="random_mean",
        spread=True,
    ),
    Figure(
        "gap.masked.reduction",
        "masked reduction",
        "gap reduction without suspected false negatives",
        lambda measured: measured.reduction("masked_gap"),
        SHARE,
        "up",
        "table history compare",
        "masked",
    ),
    Figure(
        "bounds.translation",
        "translation bound",
        "upper bound on the plan's gap (translation identity)",
        lambda measured: getattr(measured.plan, "translation_bound", None),
        better="down",
    ),
    Figure(
        "bounds.logsumexp",
        "log-sum-exp bound",
        "upper bound on the plan's gap (log-sum-exp)",
        lambda measured: getattr(measured.plan, "logsumexp_bound", None),
        better="down",
    ),
    Figure(
        "positive_probability.global",
        "p(positive), all",
        "mean softmax probability of the positive among all rows",
        lambda measured: measured.of_rows("global_probability"),
        ROUGH,
    ),
    *_against_random(
        "positive_probability.plan",
        "p(positive)",
        "mean softmax probability of the positive in its batch",
        "positive_probability",
        ROUGH,
        "down",
        "table",
    ),
    Figure(
        "graph.threshold",
        "threshold",
        "similarity above which a pair is hard",
        lambda measured: measured.inputs.threshold.similarity,
        show="table history",
        heading="t",
    ),
    Figure(
        "graph.quantile",
        "quantile",
        "share of all similarities at or below the threshold",
        lambda measured: measured.inputs.achieved_quantile,
        "{:.6g}",
    ),
    Figure(
        "graph.edges",
        "hard pairs",
        "pairs above the threshold",
        lambda measured: measured.graph.edges,
        COUNT,
        show="table",
    ),
    Figure(
        "graph.isolated",
        "rows without",
        "rows that are in no hard pair",
        lambda measured: int((measured.graph.degrees == 0).sum()),
        COUNT,
        show="table",
    ),
    Figure(
        "graph.isolated_batches",
        "batches without",
        "batches of the plan in which no row is in a hard pair",
        lambda measured: getattr(measured.plan, "isolated_batches", None),
        COUNT,
        "down",
        "table",
    ),
    Figure(
        "graph.max_degree",
        "largest degree",
        "hard pairs of the row that is in most",
        lambda measured: int(measured.graph.degrees.max()),
        COUNT,
    ),
    *_of_every_order("bandwidth", "largest distance, in rows, between the two rows of a hard pair", "table"),
    *_of_every_order("profile", "sum over rows of the distance to the farthest partner before them"),
    *_against_random(
        "in_batch_edge_share.plan",
        "in-batch share",
        "share of the hard pairs whose two rows share a batch",
        "in_batch_edge_share",
        SHARE,
        "up",
        "table compare",
        "edges",
    ),
    *_against_random(
        "false_negatives.suspected_pairs",
        "suspected pairs",
        "pairs in one batch that are about as similar as true pairs",
        "suspected_pairs",
        COUNT,
        "down",
        "table many compare",
        "suspects",
    ),
    Figure(
        "false_negatives.rows",
        "suspected rows",
        "rows in at least one suspected pair that shares a batch",
        lambda measured: getattr(measured.plan, "suspected_rows", None),
        COUNT,
        "down",
        "table",
    ),
    Figure(
        "alignment",
        "alignment",
        "mean squared distance of the positive pairs",
        lambda measured: measured.inputs.alignment,
        ROUGH,
        show="table",
    ),
    Figure(
        "uniformity.x",
        "uniformity of X",
        "spread of the rows of X over the sphere; lower is more even",
        lambda measured: measured.inputs.uniformity[0],
        ROUGH,
        show="table",
    ),
    Figure(
        "uniformity.y",
        "uniformity of Y",
        "spread of the rows of Y over the sphere; lower is more even",
        lambda measured: measured.inputs.uniformity[1],
        ROUGH,
        show="table",
    ),
    Figure(
        "mutual_information_bound",
        "information",
        "least mutual information of X and Y in nats: mean log of a row's keys − L_train",
        lambda measured: measured.information,
        ROUGH,
        show="table",
    ),
    Figure(
        "partitions.parts",
        "parts",
        "parts that were planned one by one",
        lambda measured: measured.parts,
        COUNT,
        show="table",
    ),
    Figure(
        "partitions.edges_across",
        "across parts",
        "share of the hard pairs whose rows are in different parts",
        lambda measured: measured.edges_across,
        SHARE,
        "down",
        "table",
    ),
]
"""In the order of the JSON report."""
