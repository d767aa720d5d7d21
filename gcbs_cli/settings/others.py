"""The settings of each command: what commands share, and a model for each of them."""

from typing import Annotated, Any, Self, get_args

from pydantic import BeforeValidator, model_validator

from gcbs_cli.settings.mine import MineSettings, NegativeSettings
from gcbs_cli.settings.model import OUTPUT_PANEL, Leaf, Settings, option
from gcbs_cli.settings.plan import (
    PRESET,
    WORK_PANEL,
    BscSettings,
    Device,
    Method,
    PlanSettings,
    Size,
    Trials,
)
from gcbs_cli.settings.report import LossSettings, ReportSettings
from gcbs_cli.system.errors import BadInput

INPUT_PANEL = "Input"
FORECAST_PANEL = "Forecast of a plan"
SecondSide = Annotated[
    str | None, option(..., description="Embeddings of the second side; leave out when X holds both.", argument=True)
]
PlanFile = Annotated[str, option(..., "-p", description="The permutation; - reads indices from stdin.")]


def _column(file: str) -> Any:
    return option(None, description="Name of the column to read, where the file has several.", only_with=file)


class Columns(Settings, panel=INPUT_PANEL):
    """Where embeddings lie in their files."""

    x_column: str | None = None
    """Column (Parquet) or tensor (safetensors) of X."""
    y_column: str | None = None
    """Column (Parquet) or tensor (safetensors) of Y."""


class Inputs(Columns, panel=INPUT_PANEL):
    """Paired embeddings: where they are and how they are read."""

    x: str = option(..., argument=True)
    """Embeddings of the first side: a .npy, .parquet or .safetensors file, a directory or a glob of shards."""
    y: SecondSide = None
    normalize: bool = option(True, off="--no-normalize")
    """Scale rows to unit length; --no-normalize if they already have it."""


class Shown(Settings, panel=OUTPUT_PANEL):
    """What is printed."""

    json_: bool = False
    """Print the result as one JSON object on stdout."""
    quiet: bool = option(False, "-q")
    """Print errors only."""
    config: str | None = option(None, metavar="FILE")
    """TOML file with defaults of options. [default: [tool.gcbs] of the nearest pyproject.toml]"""


class Written(Shown, panel=OUTPUT_PANEL):
    """What is printed, and whether files may be replaced."""

    force: bool = option(False, "-f")
    """Replace existing files."""


class Page(Written, panel=OUTPUT_PANEL):
    """What is printed, and beside it as a page."""

    html: str | None = None
    """Also write it as one HTML page that works offline."""


class GroupFile(Settings, panel="False negatives"):
    """Rows that are kept apart."""

    groups: str | None = None
    """An id for each row (.txt, .npy, .csv, .jsonl, .parquet): rows with the same id never share a batch."""
    groups_column: str | None = _column("groups")


class TextFile(Settings, panel=BscSettings.panel):
    """The texts of the rows."""

    text: str | None = option(None, only_with="method=words")
    """words: a text for each row (.txt, .parquet, .jsonl, .csv)."""
    text_column: str | None = _column("text")


class PairTexts(Settings, panel=INPUT_PANEL):
    """The texts that were embedded, for people to read."""

    texts: str | None = None
    """Texts of the pairs (.csv, .jsonl, .parquet), to show beside the rows. [default: those that gcbs embed keeps
    with the embeddings]
    """
    x_text: str = option("x", only_with="texts")
    """Column of --texts with the texts of X."""
    y_text: str = option("y", only_with="texts")
    """Column of --texts with the texts of Y."""


class Plan(PlanSettings, GroupFile, TextFile, Inputs, Written, panel=OUTPUT_PANEL):
    """Reads paired embeddings, finds the pairs above a quantile of all similarities, orders them, and writes the
    permutation with a manifest beside it.

    Examples:

        gcbs plan x.npy y.npy -o perm.npy --batch-size 64
        gcbs plan x.npy y.npy --preset train
        gcbs plan x.npy y.npy --partitions 4
        gcbs plan pairs.parquet -o - | gcbs report pairs.parquet -p - --json
    """

    output: str = option("perm.npy", "-o")
    """The permutation: .npy, .parquet, .txt; - for one index per line on stdout."""
    report: str | None = option(None, not_with="partitions")
    """Also write the gap report to this .json."""
    dry_run: bool = option(False, not_with="partitions")
    """Estimate threshold, edges and memory; write nothing."""


class LabelFiles(Settings, panel=LossSettings.panel):
    """Which rows are positives of each other."""

    positives: str | None = option(None, only_with="loss=bsc")
    """bsc: a value for each row (.txt, .npy, .csv, .jsonl, .parquet); rows with equal values are mutual positives.
    [default: rows with equal x]
    """
    positives_column: str | None = _column("positives")
    labels: str | None = option(None, only_with="loss=bsc")
    """bsc: 1 for each row that is a positive pair, 0 for one that counts as a negative only."""
    labels_column: str | None = _column("labels")


NEEDS_ALL_PAIRS = "html groups threshold quantile per_row fn_margin trials batch_coordinates queue loss_top"
"""Options of a report that a sample of the rows cannot serve."""


class Report(ReportSettings, LabelFiles, PairTexts, Inputs, Page):
    """L_global is the loss over all pairs, L_train the loss that training on the batches sees. Batch size, temperature,
    threshold and columns come from the plan's manifest unless given.

    Examples:

        gcbs report x.npy y.npy -p perm.npy
        gcbs report pairs.parquet -p perm.npy --html report.html
        gcbs report x.npy y.npy -p perm.npy --rows 100000
        gcbs report pairs.parquet --json -k 64 -k 256 -t 0.02 -t 0.05
    """

    perm: str | None = option(None, "-p")
    """The permutation to report on; - reads indices from stdin. Without it: what a plan could gain."""
    rows: int | None = option(None, ge=2, only_with="perm loss=infonce|symmetric", not_with=NEEDS_ALL_PAIRS)
    """Report on about this many rows, in whole batches, against all pairs, with 95 % intervals: for data whose N²
    products are out of reach. Reads it in blocks.
    """
    groups: str | None = None
    """An id for each row: rows with the same id are suspected false negatives, too. [default: as planned]"""
    groups_column: str | None = _column("groups")
    id_column: str | None = option(None, panel=INPUT_PANEL, only_with="html")
    """Column with the rows' names for --html. [default: id, where there is one]"""
    full: bool = option(False, panel=OUTPUT_PANEL)
    """Print every figure and what it means."""
    output: str | None = option(None, "-o", panel=OUTPUT_PANEL)
    """Write the JSON report to this file."""

    @model_validator(mode="before")
    @classmethod
    def _bsc_with_labels(cls, values: dict[str, Any]) -> dict[str, Any]:
        """bsc where nothing was said of the loss and files say what the positives are."""
        labelled = values.get("positives") or values.get("labels")
        return {"loss": ["bsc"], **values} if labelled else values

    @model_validator(mode="after")
    def _check_report(self) -> Self:
        if self.html is not None and {"bsc", "triplet"} & {*self.loss}:
            raise BadInput("--html: works only with --loss infonce, symmetric or simclr")
        if self.rows is not None and max(len(self.batch_sizes), len(self.temperatures), len(self.loss)) > 1:
            raise BadInput("--rows: takes one loss, batch size and temperature at a time")
        return self


class Mine(MineSettings, PairTexts, Inputs, Written, panel=NegativeSettings.panel):
    """The other way to train on hard negatives: Hard Negative (1..l) gives each row of a random batch its own l hardest
    rows of Y. Options are those of sentence-transformers' mine_hard_negatives.

    Examples:

        gcbs mine x.npy y.npy -o negatives.parquet --negatives 1
        gcbs mine pairs.parquet -o - -l 5 --relative-margin 0.05 --sampling random | head
    """

    positives: str | None = None
    """A value for each row (.txt, .npy, .csv, .jsonl, .parquet); rows with equal values are mutual positives."""
    positives_column: str | None = _column("positives")
    output: str = option("negatives.parquet", "-o", panel=OUTPUT_PANEL)
    """The negatives: .parquet, .jsonl or .csv (query, negative, score, rank, texts); - for JSON lines on stdout."""


REFINED = "+refine"
"""Ends the name of a method whose plan is refined."""
OF_ONE_PLAN = ("preset", "method", "world_size", "gather", "shuffle_batches", "partitions", "engine", "address")


UNITS = {"s": 1, "m": 60, "h": 3600}


def _seconds(value: Any) -> Any:
    """Seconds from 90, 90s, 5m or 1h."""
    text = str(value)
    return float(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else value


Budget = Annotated[
    float, BeforeValidator(_seconds), option(..., metavar="TIME", expected="a time such as 60s or 5m", gt=0)
]


class Compare(PlanSettings, GroupFile, TextFile, Inputs, Page):
    """--train tells whether planning pays on this data: two small heads on the embeddings are trained with each plan
    and rank held-out pairs. The gap alone does not tell which plan trains best.

    Seconds are those after the pass over all pairs; with --train, those of one epoch's plan.

    Examples:

        gcbs compare x.npy y.npy --train --html compare.html
        gcbs compare x.npy y.npy --train --around --budget 20m
        gcbs compare x.npy y.npy --methods rcm,metis+refine,train --graph top-m --json
        gcbs compare x.npy y.npy --methods words,knn-groups --text texts.txt --bsc-group-size 8
    """

    methods: str | None = option(None, "-M")
    """Comma-separated names, such as rcm,metis+refine; train is the preset. [default: all; with --train:
    random,rcm,train; words only with --text]
    """
    train: bool = False
    """Train small heads on the embeddings with each plan, and rank held-out pairs. Rows with equal x, or the same id in
    --groups, share their right answers.
    """
    around: bool = option(False, only_with="train")
    """Train with settings around the preset, too: another margin, other numbers of hard pairs and smaller groups."""
    budget: Budget = option(300.0, only_with="train")
    """Time for --train, such as 90s or 5m; it decides the number of rows, epochs and seeds. [default: 5m]"""
    trials: Trials = 5
    """Number of random orders to compare with."""
    omitted = OF_ONE_PLAN

    @property
    def names(self) -> list[str]:
        """The rows of the table: those of --methods, else all that the data allows."""
        if self.methods:
            return [name.strip() for name in self.methods.split(",")]
        every = (*get_args(Method), f"rcm{REFINED}", f"metis{REFINED}", PRESET)
        usual = ("random", "rcm", "words", PRESET) if self.train else every
        return [name for name in usual if name != "words" or self.text is not None]

    def lacking(self, leaf: Leaf) -> str | None:
        """As in other commands; options of a plan are for those of the methods that take them."""
        return None if leaf.name in {"text", *PlanSettings.model_fields} else super().lacking(leaf)


class Check(Columns, Shown):
    """Exits with 0 if nothing is wrong, with 1 if something is.

    Examples:

        gcbs check -p perm.npy
        gcbs check x.npy y.npy -p perm.npy
    """

    perm: PlanFile
    x: str | None = option(None, argument=True)
    """Embeddings to check the plan against."""
    y: SecondSide = None


class Apply(Written):
    """Rows are copied byte for byte, in bounded memory. Shards keep their names and their numbers of rows. A last line
    without a line ending gets one. The output appears whole or not at all.

    Examples:

        gcbs apply pairs.jsonl -p perm.npy -o reordered.jsonl
        gcbs plan x.npy y.npy -o - | gcbs apply shards/ -p - -o reordered
    """

    perm: PlanFile
    data: str = option(..., argument=True)
    """A .parquet, .jsonl, .csv or .npy file, or a folder or glob of such shards."""
    header: bool = option(True, off="--no-header")
    """The first record of a CSV file names its columns."""
    max_memory: Size = option(None, panel=WORK_PANEL)
    """Memory for rows, such as 2G; larger data are read several times. [default: half of what is free]"""
    output: str = option(..., "-o", panel=OUTPUT_PANEL)
    """A file (without a suffix, it gets the input's), or for shards a new folder."""


class Embed(Written, panel="Model"):
    """A .parquet keeps the texts beside the embeddings, for reports to show.

    Examples:

        gcbs embed pairs.csv --x-text question --y-text answer --model ./model -o pairs.parquet
    """

    texts: str = option(..., argument=True)
    """Pairs of texts: a .parquet, .csv or .jsonl file."""
    model: str = option(..., "-m")
    """A sentence-transformers model: a folder or a name on the hub."""
    x_prompt: str = ""
    """Put this before each text of X, such as 'query: '."""
    y_prompt: str = ""
    """Put this before each text of Y."""
    encode_batch: int = option(64, ge=1)
    """Number of texts that the model takes at once."""
    x_text: str = option("x", "--x-column", panel=INPUT_PANEL)
    """Column with the texts of X."""
    y_text: str = option("y", "--y-column", panel=INPUT_PANEL)
    """Column with the texts of Y."""
    device: Device = "auto"
    output: str = option("embeddings.parquet", "-o", panel=OUTPUT_PANEL)
    """A .parquet with the columns x and y, the texts, and the column id where the texts have one."""


class Demo(Written):
    """The data are 1,500 functions of Python's standard library, docstring and code.

    Examples:

        gcbs demo
        gcbs demo try-gcbs
    """

    folder: str = option("gcbs-demo", argument=True)
    """Where the data, the plan and the page are written."""


class History(Shown, panel=INPUT_PANEL):
    """Reads one report per epoch. Where it finds the plans, it also says how long they took and how much of each
    recurs.

    Examples:

        gcbs history reports/*.json
        gcbs history reports/*.json --plans 'plans/*.npy'
    """

    reports: tuple[str, ...] = option(..., min_length=1, argument=True)
    """Reports that gcbs report -o or gcbs plan --report wrote, or a folder of them."""
    plans: str | None = None
    """Quoted pattern of the plans, in the reports' order. [default: epoch-2.npy, .parquet or .txt beside
    epoch-2.json]
    """


class Doctor(Shown):
    """The rates are measured with products of square matrices.

    Examples:

        gcbs doctor
        gcbs doctor --rows 1000000 --dim 768
    """

    rows: int | None = option(None, ge=2, panel=FORECAST_PANEL)
    """Forecast a plan of this many pairs."""
    dim: int = option(384, ge=1, panel=FORECAST_PANEL, only_with="rows")
    """Dimensions of the embeddings."""


class Config(Shown):
    """Settings come from the command line, then GCBS_* variables, then --config FILE or the nearest pyproject.toml that
    has a table [tool.gcbs].

    Examples:

        gcbs config
        gcbs config --config gcbs.toml
    """


def model_of(command: str) -> type[Shown]:
    """The settings of a command."""
    model: type[Shown] = globals()[command.capitalize()]
    return model
