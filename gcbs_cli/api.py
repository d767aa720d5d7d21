"""The Python API: plan, report and mine on arrays or tensors, with the settings of the command line and no files."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gcbs_cli.data.files import one_line
from gcbs_cli.data.opening import open_arrays
from gcbs_cli.data.row_values import ids_of, labels_of, text_of
from gcbs_cli.mining.run import Mined
from gcbs_cli.mining.run import mine as mine_negatives
from gcbs_cli.plan_file.permutation import verify_permutation
from gcbs_cli.planning.parts.plan import plan_in_parts
from gcbs_cli.planning.plan import PlanResult, make_plan
from gcbs_cli.reports.basis import RowFacts
from gcbs_cli.reports.losses import make_reports
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.settings.model import documents
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE, PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput


@documents(PlanSettings)
def plan(
    x: Any,
    y: Any,
    *,
    groups: ArrayLike | None = None,
    texts: Sequence[str | None] | None = None,
    normalize: bool = True,
    **settings: Any,
) -> PlanResult:
    """Plan the batches of one epoch.

    With partitions, the rows lie in the temporary folder (TMPDIR) for the time of the run, 8 · N · d bytes.

    Args:
        x: (N, d) array or tensor on any device, float16, bfloat16, float32 or float64.
        y: Like x; row i of both is pair i.
        groups: (N,) an id for each row; rows with the same id never share a batch.
        texts: A text or None for each row, for the method words.
        normalize: Scale rows to unit length.
        **settings: Those of `gcbs plan`; they are listed below.

    Returns:
        The plan. Its `perm` is the (N,) int64 permutation: batch b is `perm[b*k:(b+1)*k]`.

    Raises:
        BadInput: If arrays or settings do not fit.
    """
    plan_settings = PlanSettings(**settings)
    plan_settings.check_effects()
    if texts is not None and plan_settings.method != "words":
        raise BadInput(f"texts: need method words, found {plan_settings.method}")
    stream = open_arrays(x, y, normalize=normalize)
    plan_settings.check_rows(stream.rows)
    values = _values(texts, "texts", stream.rows)
    facts: dict[str, Any] = {
        "groups": _ids(groups, "groups", stream.rows),
        "texts": None if values is None else list(map(text_of, values)),
    }
    if plan_settings.partitions is not None:
        return plan_in_parts(stream, plan_settings, **facts)
    return make_plan(stream.read(), plan_settings, **facts)


@documents(ReportSettings, "batch_sizes", "temperatures")
def report(
    x: Any,
    y: Any,
    perm: ArrayLike | None = None,
    *,
    batch_size: int = DEFAULT_BATCH_SIZE,
    temperature: float = DEFAULT_TEMPERATURE,
    **settings: Any,
) -> GapReport:
    """Say what a plan is worth at one batch size and temperature.

    Args:
        x: (N, d) array or tensor, as in `plan`.
        y: Like x; row i of both is pair i.
        perm: (N,) permutation; None reports on random batches and the oracle alone.
        batch_size: k, the number of pairs that one loss sees together.
        temperature: Of the loss, 1 / scale.
        **settings: The other arguments of `report_all`; they are listed below.

    Returns:
        The report. Its fields are those of `gcbs report --json`.

    Raises:
        BadInput: If arrays, permutation or settings do not fit.
    """
    return report_all(x, y, perm, batch_sizes=batch_size, temperatures=temperature, **settings)[0]


@documents(ReportSettings)
def report_all(
    x: Any,
    y: Any,
    perm: ArrayLike | None = None,
    *,
    positives: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    normalize: bool = True,
    **settings: Any,
) -> list[GapReport]:
    """Report on a plan for every loss, batch size and temperature; one pass over all pairs serves them all.

    Args:
        x: (N, d) array or tensor, as in `plan`.
        y: Like x; row i of both is pair i.
        perm: (N,) permutation; None reports on random batches and the oracle alone.
        positives: (N,) an id for each row; rows with the same id are positives of each other. The loss is bsc.
        labels: (N,) true for rows that are positive pairs, false for those that count as negatives only, or numbers
            (label_threshold, bsc_mse). The loss is bsc.
        groups: (N,) an id for each row; rows with the same id are suspected false negatives.
        normalize: Scale rows to unit length.
        **settings: Those of `gcbs report`; they are listed below.

    Returns:
        A report for each combination, in the order of losses, batch sizes and temperatures.

    Raises:
        BadInput: If arrays, permutation or settings do not fit.
    """
    labelled = positives is not None or labels is not None
    if labelled:
        settings = {"loss": "bsc"} | settings
    report_settings = ReportSettings(**settings)
    if labelled and "bsc" not in report_settings.loss:
        raise BadInput("positives, labels: need the loss bsc")
    report_settings.check_effects()
    stream = open_arrays(x, y, normalize=normalize)
    pairs = stream.read()
    targets = _values(labels, "labels", pairs.rows)
    facts = RowFacts(
        _ids(positives, "positives", pairs.rows),
        None if targets is None else labels_of(targets, "labels", graded=report_settings.graded_labels),
        _ids(groups, "groups", pairs.rows),
        raw=None if report_settings.batch_coordinates is None else stream.read_raw(),
    )
    order = None
    if perm is not None:
        order = np.array(_values(perm, "perm", pairs.rows))
        verify_permutation(order, pairs.rows, "perm")
    return make_reports(pairs, order, report_settings, facts=facts)


@documents(MineSettings)
def mine(x: Any, y: Any, *, positives: ArrayLike | None = None, normalize: bool = True, **settings: Any) -> Mined:
    """Find each row's hardest negatives among the rows of y, and what the loss would be with them.

    Args:
        x: (N, d) array or tensor, as in `plan`.
        y: Like x; row i of both is pair i.
        positives: (N,) an id for each row; rows with the same id are never negatives of each other.
        normalize: Scale rows to unit length.
        **settings: Those of `gcbs mine`; they are listed below.

    Returns:
        `negatives` (query, negative, score and rank, an entry each) and `report`, the figures of `gcbs mine --json`.

    Raises:
        BadInput: If arrays or settings do not fit.
    """
    mine_settings = MineSettings(**settings)
    pairs = open_arrays(x, y, normalize=normalize).read()
    return mine_negatives(pairs, mine_settings, _ids(positives, "positives", pairs.rows))


def _ids(ids: ArrayLike | None, name: str, rows: int) -> Ints | None:
    """(N,) a number for each row's id, of whatever type the ids are; None for none."""
    values = _values(ids, name, rows)
    return None if values is None else ids_of(values)


def _values(values: Any, name: str, rows: int) -> list[Any] | None:
    """A value for each row, from a list, an array or a tensor; None for none. Raises BadInput for another shape."""
    if values is None:
        return None
    try:
        plain = values.tolist() if hasattr(values, "tolist") else list(values)
        kinds = {type(value) for value in plain}
    except Exception as error:  # sparse tensors and what cannot be iterated
        raise BadInput(f"{name}: found {type(values).__name__} ({one_line(error)}), expected a list or array") from None
    if len(plain) != rows or kinds & {list, tuple, dict}:
        raise BadInput(f"{name}: expected one value for each of the {rows:,} rows, got {len(plain):,}, or several each")
    return plain
