"""The Python API: plan, report and mine on arrays or tensors, with the settings of the command line and no files."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gcbs_cli.data.opening import open_arrays
from gcbs_cli.data.row_values import ids_of, labels_of, text_of
from gcbs_cli.mining.run import Mined
from gcbs_cli.mining.run import mine as mine_pair
from gcbs_cli.plan_file.permutation import verify_permutation
from gcbs_cli.planning.parts.plan import plan_in_parts
from gcbs_cli.planning.plan import PlanResult, make_plan
from gcbs_cli.reports.basis import RowFacts
from gcbs_cli.reports.build import make_reports
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.settings.model import typed_by
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE, PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.arrays import Array, Ints
from gcbs_cli.system.errors import BadInput


@typed_by(PlanSettings)
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

    x, y: (N, d) arrays or tensors on any device, float16, bfloat16, float32 or float64; row i of both is pair i.
    groups: (N,) an id for each row; rows with the same id never share a batch. texts: a text or None for each row, for
    the method words. normalize: scale rows to unit length. With partitions, the rows lie in the temporary folder
    (TMPDIR) for the time of the run, 8 · N · d bytes.
    Returns a PlanResult whose `perm` is the (N,) int64 permutation: batch b is `perm[b*k:(b+1)*k]`. The other settings
    are those of `gcbs plan`. Raises BadInput for arrays or settings that do not fit.
    """
    asked = PlanSettings(**settings)
    asked.check_effects()
    if texts is not None and asked.method != "words":
        raise BadInput(f"texts: need method words, found {asked.method}")
    stream = open_arrays(x, y, normalize=normalize)
    asked.check_rows(stream.rows)
    if texts is not None and len(texts) != stream.rows:
        raise BadInput(f"texts: expected one for each of the {stream.rows:,} rows, got {len(texts):,}")
    ids, listed = _ids(groups, "groups", stream.rows), None if texts is None else list(map(text_of, texts))
    if asked.partitions is not None:
        return plan_in_parts(stream, asked, groups=ids, texts=listed)
    return make_plan(stream.read(), asked, groups=ids, texts=listed)


@typed_by(ReportSettings, "batch_sizes", "temperatures")
def report(
    x: Any,
    y: Any,
    perm: ArrayLike | None = None,
    *,
    batch_size: int = DEFAULT_BATCH_SIZE,
    temperature: float = DEFAULT_TEMPERATURE,
    **settings: Any,
) -> GapReport:
    """Say what a plan is worth at one batch size and temperature; the arguments are those of `report_all`."""
    return report_all(x, y, perm, batch_sizes=batch_size, temperatures=temperature, **settings)[0]


@typed_by(ReportSettings)
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
    """Reports for every loss, batch size and temperature; one pass over all pairs serves them all.

    x, y as in `plan`; perm: (N,) permutation, or None for what random batches leave and the oracle could close.
    positives: (N,) an id for each row, rows with the same id are positives of each other; labels: (N,) true for rows
    that are positive pairs, false for those that count as negatives only, or numbers (label_threshold, bsc_mse); the
    loss is bsc where either is given.
    groups: (N,) an id for each row, rows with the same id are suspected false negatives. normalize: scale rows to unit
    length.
    Raises BadInput for arrays, permutation or settings that do not fit.
    """
    labelled = positives is not None or labels is not None
    asked = ReportSettings(**({"loss": "bsc"} | settings if labelled else settings))
    if labelled and "bsc" not in asked.loss:
        raise BadInput("positives, labels: need the loss bsc")
    asked.check_effects()
    stream = open_arrays(x, y, normalize=normalize)
    pair, raw = stream.read(), None if asked.batch_coordinates is None else stream.read_raw()
    given = _values(labels, "labels", pair.rows)
    targets = None if given is None else labels_of(given.tolist(), "labels", graded=asked.graded_labels)
    facts = RowFacts(_ids(positives, "positives", pair.rows), targets, _ids(groups, "groups", pair.rows), raw=raw)
    order = _array(perm)
    if order is not None:
        verify_permutation(order, pair.rows, "perm")
        order = order.astype(np.int64)
    return make_reports(pair, order, asked, facts=facts)


@typed_by(MineSettings)
def mine(x: Any, y: Any, *, positives: ArrayLike | None = None, normalize: bool = True, **settings: Any) -> Mined:
    """Each row's hardest negatives among the rows of y, and what the loss would be with them.

    x, y as in `plan`; positives: (N,) an id for each row, rows with the same id are never negatives of each other;
    normalize: scale rows to unit length.
    Returns `negatives` (query, negative, score, rank: one entry each) and `report`, the figures of `gcbs mine --json`.
    The other settings are those of `gcbs mine`. Raises BadInput for arrays or settings that do not fit.
    """
    asked = MineSettings(**settings)
    pair = open_arrays(x, y, normalize=normalize).read()
    return mine_pair(pair, asked, _ids(positives, "positives", pair.rows))


def _ids(ids: ArrayLike | None, name: str, rows: int) -> Ints | None:
    """(N,) a number for each row's id, whatever the ids are; None for none."""
    values = _values(ids, name, rows)
    return None if values is None else ids_of(values.tolist())


def _values(values: ArrayLike | None, name: str, rows: int) -> Array | None:
    found = _array(values)
    if found is not None and found.shape != (rows,):
        raise BadInput(f"{name}: expected one value for each of the {rows:,} rows, got shape {found.shape}")
    return found


def _array(values: Any) -> Array | None:
    return None if values is None else np.asarray(values.cpu() if hasattr(values, "cpu") else values)
