"""What is common to commands, inputs and outputs, and what the small commands can be asked for."""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from gcbs_cli.settings.mine import MineSettings, NegativeSettings
from gcbs_cli.settings.model import OUTPUT_PANEL, Settings, Typed
from gcbs_cli.settings.plan import WORK_PANEL, BscSettings, Device, FalseNegativeSettings, PlanSettings, Size
from gcbs_cli.settings.report import LOSS_PANEL, LossKind, ReportSettings
from gcbs_cli.system.errors import BadInput

INPUT_PANEL = "Input"
MODEL_PANEL = "Model"
FORECAST_PANEL = "Forecast of a plan"
ROW_FILES = ("groups", "text", "positives", "labels")
"""Options of files, each of which has one for the column in it."""

Permutation = Annotated[str, Typed(argument=True), Field(description="The permutation; - reads indices from stdin.")]
SecondSide = Annotated[
    str | None,
    Typed(argument=True),
    Field(description="Embeddings of the second side; leave out when X holds both."),
]
ColumnName = Annotated[str | None, Field(description="Name of the column to read, where the file has several.")]


class Columns(Settings):
    """Where embeddings lie in their files."""

    panel = INPUT_PANEL

    x_column: str | None = Field(None, description="Column (Parquet) or tensor (safetensors) of X.")
    y_column: str | None = Field(None, description="Column (Parquet) or tensor (safetensors) of Y.")
    dtype: Literal["bfloat16"] | None = Field(None, description="Read 2-byte void elements of .npy as bfloat16.")


class Inputs(Columns):
    """Paired embeddings: where they are and how they are read."""

    panel = INPUT_PANEL

    x: Annotated[str, Typed(argument=True)] = Field(
        description="Embeddings of the first side: a .npy, .parquet or .safetensors file, a directory or a glob of "
        "shards."
    )
    y: SecondSide = None
    normalize: Annotated[bool, Typed(off="--no-normalize")] = Field(
        True, description="Scale rows to unit length; --no-normalize for rows that have it already."
    )


class Shown(Settings):
    """What is printed."""

    panel = OUTPUT_PANEL

    json_: Annotated[bool, Typed(option="--json")] = Field(
        False, description="Print the result as one JSON object on stdout."
    )
    quiet: Annotated[bool, Typed("-q")] = Field(False, description="Print errors only.")


class Written(Shown):
    """What is printed, and whether files may be replaced."""

    panel = OUTPUT_PANEL

    force: Annotated[bool, Typed("-f")] = Field(False, description="Replace files that exist already.")


class RowFiles(Settings):
    """Files with a value for each row, whose column is refused where nobody named the file."""

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        for name in ROW_FILES:
            if getattr(self, f"{name}_column", None) is not None and getattr(self, name) is None:
                raise BadInput(f"--{name}-column has no effect without --{name}")
        return self


class GroupFile(RowFiles):
    """Rows that are kept apart."""

    panel = FalseNegativeSettings.panel

    groups: str | None = Field(
        None,
        description="An id for each row (.txt, .npy, .csv, .jsonl, .parquet): rows with the same one never share a "
        "batch.",
    )
    groups_column: ColumnName = None


class TextFile(RowFiles):
    """The texts of the rows."""

    panel = BscSettings.panel

    text: str | None = Field(None, description="words: a text for each row (.txt, .parquet, .jsonl, .csv).")
    text_column: ColumnName = None

    def check_text(self, methods: list[str]) -> None:
        """Raises BadInput when the methods and the option do not belong together."""
        if "words" in methods and self.text is None:
            raise BadInput("--method words: expected the rows' texts; give them with --text FILE")
        if "words" not in methods and self.text is not None:
            raise BadInput(f"--text: goes with --method words, not {', '.join(methods)}")


class Plan(PlanSettings, GroupFile, TextFile, Inputs, Written):
    """Order the pairs so that consecutive batches hold hard negatives.

    Reads paired embeddings, finds the pairs above a quantile of all similarities, orders them, and writes the
    permutation with a manifest beside it.

    Examples:

      gcbs plan x.npy y.npy -o perm.npy --batch-size 64

      gcbs plan x.npy y.npy --graph top-m --refine --fn-margin 0.95

      gcbs plan x.npy y.npy --partitions 4

      gcbs plan pairs.parquet -o - | gcbs report pairs.parquet -p - --json
    """

    panel = OUTPUT_PANEL

    work_dir: str | None = Field(
        None,
        description="With --partitions, keep the plans of finished parts in this folder until the whole is saved: "
        "after a kill, the same command goes on from there.",
    )
    output: Annotated[str, Typed("-o")] = Field(
        "perm.npy",
        description="The permutation: .npy, .parquet, .txt; - for one index a line on stdout.",
    )
    report: str | None = Field(None, description="Write the gap report to this .json as well.")
    dry_run: bool = Field(False, description="Estimate threshold, edges and memory; write nothing.")

    @model_validator(mode="after")
    def _check_plan(self) -> Self:
        self.check_effects()
        self.check_text([self.method])
        in_parts = self.partitions is not None
        if self.work_dir is not None and not in_parts:
            raise BadInput("--work-dir has no effect without --partitions")
        if self.dry_run and in_parts:
            raise BadInput("--dry-run: forecasts one graph; leave out --partitions, or plan one part's rows alone")
        if self.report is not None and in_parts:
            raise BadInput("--report: reads all pairs at once; with --partitions run  gcbs report --rows  afterwards")
        if self.output == "-" and self.json_ and not self.dry_run:
            raise BadInput("--json with -o -: stdout carries the permutation; write it to a file, or leave out --json")
        return self


class Report(ReportSettings, RowFiles, Inputs, Written):
    """Say how much of the gap between L_global and L_train a plan closes.

    L_global is the loss over all pairs, L_train the loss that training on the batches sees. Batch size, temperature,
    threshold and columns come from the plan's manifest unless given.

    Examples:

      gcbs report x.npy y.npy -p perm.npy

      gcbs report pairs.parquet -p perm.npy --html report.html

      gcbs report x.npy y.npy -p perm.npy --rows 100000

      gcbs report pairs.parquet --json -k 64 -k 256 -t 0.02 -t 0.05
    """

    perm: Annotated[str | None, Typed("-p", one_call=True)] = Field(
        None,
        description="The permutation to report on; - reads indices from stdin. Without it: is planning worth it?",
    )
    rows: int | None = Field(
        None,
        ge=2,
        description="Report on about this many rows of the plan, in whole batches, against all pairs, with 95 % "
        "intervals: for N where N² is out of reach. Reads block by block.",
    )
    groups: Annotated[str | None, Typed(default="as planned")] = Field(
        None, description="An id for each row: rows with the same one are suspected false negatives, too."
    )
    groups_column: ColumnName = None
    positives: Annotated[str | None, Typed(default="rows with equal x", panel=LOSS_PANEL)] = Field(
        None,
        description="bsc: a value for each row (.txt, .npy, .csv, .jsonl, .parquet); rows with the same one are "
        "positives of each other.",
    )
    positives_column: Annotated[ColumnName, Typed(panel=LOSS_PANEL)] = None
    labels: Annotated[str | None, Typed(panel=LOSS_PANEL)] = Field(
        None, description="bsc: 1 for each row that is a positive pair, 0 for one that counts as a negative only."
    )
    labels_column: Annotated[ColumnName, Typed(panel=LOSS_PANEL)] = None
    id_column: Annotated[str | None, Typed(default="id, where there is one", panel=INPUT_PANEL)] = Field(
        None, description="Column with the rows' names for --html."
    )
    output: Annotated[str | None, Typed("-o", panel=OUTPUT_PANEL)] = Field(
        None, description="Write the JSON report to this file."
    )
    html: Annotated[str | None, Typed(panel=OUTPUT_PANEL)] = Field(
        None, description="Write the report as one page that needs no network."
    )

    @model_validator(mode="before")
    @classmethod
    def _bsc_with_labels(cls, values: dict[str, Any]) -> dict[str, Any]:
        """bsc where nothing was said of the loss and files say what the positives are."""
        labelled = values.get("positives") or values.get("labels")
        return {"loss": [LossKind.BSC], **values} if labelled else values

    @model_validator(mode="after")
    def _check_report(self) -> Self:
        if (self.positives, self.labels) != (None, None) and LossKind.BSC not in self.loss:
            raise BadInput("--positives and --labels go with --loss bsc")
        if self.html is not None and any(loss.has_own_terms for loss in self.losses):
            raise BadInput("--html: goes with --loss infonce, symmetric and simclr")
        if self.rows is not None:
            self._check_sample()
        return self

    def _check_sample(self) -> None:
        if self.perm is None:
            raise BadInput("--rows: draws batches of a plan; name the plan with -p")
        if max(len(self.batch_sizes), len(self.temperatures), len(self.loss)) > 1:
            raise BadInput("--rows: one loss, batch size and temperature at a time")
        loss = self.losses[0]
        if loss.kind not in (LossKind.INFONCE, LossKind.SYMMETRIC) or loss.queue_batches:
            raise BadInput(f"--rows: goes with --loss infonce and symmetric, without a queue; found {loss.name}")
        for option, given in (("--html", self.html), ("--groups", self.groups)):
            if given is not None:
                raise BadInput(f"{option}: needs all pairs and does not go with --rows; leave one of them out")


class Mine(MineSettings, RowFiles, Inputs, Written):
    """Find each row's hardest negatives, and say what the loss would be with them.

    The other way to train on hard negatives: Hard Negative (1..l) appends to every row of a random batch its own l
    hardest of Y. Options are those of sentence-transformers' mine_hard_negatives.

    Examples:

      gcbs mine x.npy y.npy -o negatives.parquet --negatives 1

      gcbs mine pairs.parquet -o - -l 5 --relative-margin 0.05 --sampling random | head
    """

    positives: Annotated[str | None, Typed(panel=NegativeSettings.panel)] = Field(
        None,
        description="A value for each row (.txt, .npy, .csv, .jsonl, .parquet): rows with the same one are "
        "positives of each other, never negatives.",
    )
    positives_column: Annotated[ColumnName, Typed(panel=NegativeSettings.panel)] = None
    output: Annotated[str, Typed("-o", panel=OUTPUT_PANEL)] = Field(
        "negatives.parquet",
        description="The negatives: .parquet, .jsonl or .csv (query, negative, score, rank); - for JSON lines on "
        "stdout.",
    )

    @model_validator(mode="after")
    def _check_output(self) -> Self:
        if self.output == "-" and self.json_:
            raise BadInput("--json with -o -: stdout carries the negatives; write them to a file, or leave out --json")
        return self


OF_PARTS = ("partitions", "engine", "address")
OF_ONE_PLAN = ("method", "world_size", "gather", "shuffle_batches", *OF_PARTS)
TRIED = ("refine", "graph", "top", "rank_window", "fn_margin", "fn_weight", "group_size", *BscSettings.model_fields)


class Compare(PlanSettings, GroupFile, TextFile, Inputs, Shown):
    """Make a plan with each method and say what each is worth.

    Seconds are those after the pass over all pairs, which is made once for the plans and once for the reports.

    Examples:

      gcbs compare x.npy y.npy

      gcbs compare x.npy y.npy --methods rcm,metis+refine --graph top-m --json

      gcbs compare x.npy y.npy --methods words,knn-groups --text texts.txt --bsc-group-size 8
    """

    methods: Annotated[str | None, Typed(default="all there are; words with --text")] = Field(
        None, description="Names with commas between, such as rcm,metis+refine."
    )
    recurrence: bool = Field(
        False, description="Plan with the next seed too, and say how many in-batch pairs come again."
    )
    trials: int = Field(5, ge=1, description="Number of random orders to compare with.")
    omitted = frozenset(OF_ONE_PLAN)


def _seconds(value: Any) -> Any:
    """Seconds from 90, 90s, 5m or 1h."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    text = str(value)
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    try:
        seconds = float(number) * unit
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise BadInput(f"--budget {text}: expected a time such as 60s or 5m")
    return seconds


class Tune(PlanSettings, GroupFile, TextFile, Inputs, Shown):
    """Try graphs, margins, weights and group sizes, and print the command line of the best plan.

    The best closes most of the (masked) gap among those with few enough suspected false negatives in their batches.
    --text has the method words tried too.

    Examples:

      gcbs tune x.npy y.npy --budget 60s

      gcbs tune x.npy y.npy -k 256 --max-suspected 1000 --json
    """

    budget: Annotated[float, BeforeValidator(_seconds), Typed(metavar="TIME", default="60s")] = Field(
        60.0, description="Time for it all, such as 60s or 5m; a trial that has begun is finished."
    )
    max_suspected: Annotated[int | None, Typed(default="as many as plain RCM's")] = Field(
        None, ge=0, description="Number of suspected false negatives that batches may hold."
    )
    target: Literal["masked", "gap"] = Field(
        "masked", description="Reduction to maximise: of the masked gap, or of the plain one."
    )
    omitted = frozenset({*OF_ONE_PLAN, *TRIED})


class Check(Columns, Shown):
    """Check that a plan is a permutation, matches its manifest and was made from this data.

    Exit code 0 when nothing is wrong, 1 when something is.

    Examples:

      gcbs check perm.npy

      gcbs check perm.npy x.npy y.npy
    """

    perm: Permutation
    x: Annotated[str | None, Typed(argument=True)] = Field(None, description="Embeddings it should belong to.")
    y: SecondSide = None


class Apply(Written):
    """Write data in plan order: batch b is then rows b·k to (b+1)·k.

    Rows are copied byte for byte, by two passes in sequence, in bounded memory. Shards keep their names and their
    numbers of rows. A last line without a line end gets one. The output appears whole or not at all.

    Examples:

      gcbs apply perm.npy pairs.jsonl -o reordered.jsonl

      gcbs plan x.npy y.npy -o - | gcbs apply - shards/ -o reordered
    """

    perm: Permutation
    data: Annotated[str, Typed(argument=True)] = Field(
        description="A .parquet, .jsonl, .csv or .npy file, or a folder or glob of such shards."
    )
    header: Annotated[bool, Typed(off="--no-header")] = Field(
        True, description="The first record of a CSV file names its columns."
    )
    max_memory: Annotated[Size, Typed(default="512M", metavar="SIZE", panel=WORK_PANEL)] = Field(
        512 * 2**20,
        description="Memory for rows, such as 2G; larger data passes through temporary files beside the output.",
    )
    output: Annotated[str, Typed("-o", panel=OUTPUT_PANEL)] = Field(
        description="A file (the input's suffix is added where it has none); for shards a new folder."
    )


class Embed(Written):
    """Embed pairs of texts with a local sentence-transformers model, for a first plan without code.

    Examples:

      gcbs embed pairs.csv --x-text question --y-text answer --model ./model -o pairs.parquet
    """

    texts: Annotated[str, Typed(argument=True)] = Field(description="Pairs of texts: a .parquet, .csv or .jsonl file.")
    model: Annotated[str, Typed("-m", panel=MODEL_PANEL)] = Field(
        description="Folder of a sentence-transformers model."
    )
    x_prompt: Annotated[str, Typed(panel=MODEL_PANEL)] = Field(
        "", description="Put this before each text of X, such as 'query: '."
    )
    y_prompt: Annotated[str, Typed(panel=MODEL_PANEL)] = Field("", description="Put this before each text of Y.")
    encode_batch: Annotated[int, Typed(panel=MODEL_PANEL)] = Field(
        64, ge=1, description="Number of texts that the model takes at once."
    )
    x_text: Annotated[str, Typed(panel=INPUT_PANEL)] = Field("x", description="Column with the texts of X.")
    y_text: Annotated[str, Typed(panel=INPUT_PANEL)] = Field("y", description="Column with the texts of Y.")
    device: Device = "auto"
    output: Annotated[str, Typed("-o", panel=OUTPUT_PANEL)] = Field(
        "embeddings.parquet",
        description="A .parquet with the columns x and y (and id), or a folder for x.npy and y.npy.",
    )


class History(Written):
    """Show losses, gap and plans over epochs, and whether planning still pays.

    Reads one report an epoch. Where the plans are found, it also says how long they took and how much of each recurs.

    Examples:

      gcbs history reports/*.json

      gcbs history reports/*.json --plans 'plans/*.npy' --html history.html
    """

    reports: Annotated[tuple[str, ...], Typed(argument=True, metavar="REPORT")] = Field(
        min_length=1, description="Reports that gcbs report -o or gcbs plan --report wrote."
    )
    plans: Annotated[
        str | None, Typed(default="epoch-2.npy, .parquet or .txt beside epoch-2.json", panel=INPUT_PANEL)
    ] = Field(None, description="Quoted pattern of the plans, in the reports' order.")
    keep_order: Annotated[bool, Typed(panel=INPUT_PANEL)] = Field(
        False, description="Take the reports in the order given, not 2 before 10."
    )
    html: Annotated[str | None, Typed(panel=OUTPUT_PANEL)] = Field(
        None, description="Write the history as one page that needs no network."
    )


class Doctor(Shown):
    """Show versions, devices and their speed, memory, optional packages, and what a plan would take.

    Examples:

      gcbs doctor

      gcbs doctor --rows 1000000 --dim 768
    """

    seconds: float = Field(1.0, gt=0, description="Time to measure rates for.")
    rows: Annotated[int | None, Typed(panel=FORECAST_PANEL)] = Field(
        None, ge=2, description="Forecast a plan of this many pairs."
    )
    dim: Annotated[int, Typed(panel=FORECAST_PANEL)] = Field(384, ge=1, description="Dimensions of the embeddings.")
    quantile: Annotated[float, Typed(panel=FORECAST_PANEL)] = Field(
        0.999, gt=0, lt=1, description="Quantile of the plan."
    )


class Config(Shown):
    """Show which settings count and where each comes from.

    Settings come from the command line, then GCBS_* variables, then --config FILE or the [tool.gcbs] table of the
    nearest pyproject.toml.

    Examples:

      gcbs config

      gcbs config --all --config gcbs.toml
    """

    all_: Annotated[bool, Typed(option="--all")] = Field(
        False, description="Show the options that have their own default, too."
    )
