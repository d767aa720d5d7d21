"""The Python API: plan and report on arrays or tensors, with the settings of the command line and no files."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gcbs_cli.embeddings import check_pair, from_array, read_unit_rows
from gcbs_cli.errors import BadInput
from gcbs_cli.plan_file.permutation import verify_permutation
from gcbs_cli.planning import PlanResult, make_plan
from gcbs_cli.reports.build import ReportSettings, make_reports
from gcbs_cli.reports.losses import Loss, LossKind, QueueMode
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_TEMPERATURE,
    DEFAULT_TOP,
    BatchOrderSettings,
    FalseNegativeSettings,
    GraphSettings,
    PlanSettings,
)
from gcbs_cli.similarity.canonical_values import UnitPair


def plan(
    x: Any,
    y: Any,
    *,
    batch_size: int = DEFAULT_BATCH_SIZE,
    quantile: float | None = None,
    per_row: float | None = None,
    threshold: float | None = None,
    quantile_method: str = "sample",
    method: str = "rcm",
    temperature: float = DEFAULT_TEMPERATURE,
    seed: int = 0,
    device: str = "auto",
    max_edges: int | None = None,
    world_size: int | None = None,
    gather: bool = False,
    graph: str = "quantile",
    top: int = DEFAULT_TOP,
    rank_window: tuple[int, int] | None = None,
    refine: bool = False,
    time_limit: float | None = None,
    fn_margin: float | None = None,
    fn_absolute: float | None = None,
    fn_top: int = 0,
    fn_weight: float = 1.0,
    groups: ArrayLike | None = None,
    no_duplicates: bool = False,
    group_size: int | None = None,
    shuffle_batches: bool = False,
    curriculum: str | None = None,
    normalize: bool = True,
) -> PlanResult:
    """Plan the batches of one epoch.

    x, y: (N, d) arrays or tensors on any device, float16, bfloat16, float32 or float64; row i of both is pair i.
    groups: (N,) an id for each row; rows with the same one never share a batch.
    Returns a PlanResult whose `perm` is the (N,) int64 permutation: batch b is `perm[b*k:(b+1)*k]`. The other settings
    are those of `gcbs plan`. Raises BadInput for arrays or settings that do not fit.
    """
    settings = PlanSettings(
        batch_size=batch_size,
        graph=GraphSettings(quantile, per_row, threshold, quantile_method, graph, top, rank_window),
        method=method,
        temperature=temperature,
        seed=seed,
        device=device,
        max_edges=max_edges,
        world_size=world_size,
        gather=gather,
        refine=refine,
        refine_seconds=time_limit,
        false_negatives=FalseNegativeSettings(fn_margin, fn_absolute, fn_top, fn_weight),
        no_duplicates=no_duplicates,
        batch_order=BatchOrderSettings(group_size, shuffle_batches, curriculum),
    )
    numbers = None if groups is None else group_numbers(groups)
    return make_plan(_pair(x, y, normalize=normalize), settings, groups=numbers)


def report(
    x: Any,
    y: Any,
    perm: ArrayLike | None = None,
    *,
    batch_size: int = DEFAULT_BATCH_SIZE,
    temperature: float = DEFAULT_TEMPERATURE,
    loss: str = "symmetric",
    **settings: Any,
) -> GapReport:
    """Say what a plan is worth at one batch size and temperature; the settings are those of `report_all`."""
    return report_all(x, y, perm, batch_sizes=[batch_size], temperatures=[temperature], losses=[loss], **settings)[0]


def report_all(
    x: Any,
    y: Any,
    perm: ArrayLike | None = None,
    *,
    batch_sizes: Sequence[int] = (DEFAULT_BATCH_SIZE,),
    temperatures: Sequence[float] = (DEFAULT_TEMPERATURE,),
    losses: Sequence[str] = ("symmetric",),
    queue: int = 0,
    queue_mode: str = "xbm",
    quantile: float | None = None,
    per_row: float | None = None,
    threshold: float | None = None,
    quantile_method: str = "sample",
    trials: int = 20,
    seed: int = 0,
    fn_margin: float = 0.95,
    fn_absolute: float | None = None,
    groups: ArrayLike | None = None,
    verify: bool = False,
    drop_last: bool = False,
    device: str = "auto",
    normalize: bool = True,
) -> list[GapReport]:
    """Reports for every loss, batch size and temperature; one pass over all pairs serves them all.

    x, y as in `plan`; perm: (N,) permutation, or None to hear what random batches leave and the oracle could close.
    losses: infonce, symmetric or simclr; queue: batches in a memory queue, queue_mode: moco or xbm.
    Raises BadInput for arrays, permutation or settings that do not fit.
    """
    pair = _pair(x, y, normalize=normalize)
    kinds = [
        Loss(_choice(LossKind, name, "loss"), queue, _choice(QueueMode, queue_mode, "queue_mode")) for name in losses
    ]
    settings = ReportSettings(
        batch_sizes=batch_sizes,
        temperatures=temperatures,
        losses=kinds,
        graph=GraphSettings(quantile, per_row, threshold, quantile_method),
        trials=trials,
        seed=seed,
        fn_margin=fn_margin,
        fn_absolute=fn_absolute,
        groups=None if groups is None else group_numbers(groups),
        verify=verify,
        drop_last=drop_last,
        device=device,
    )
    order = None if perm is None else _permutation(perm, pair.rows)
    return make_reports(pair, order, settings)


def group_numbers(groups: ArrayLike) -> NDArray[np.int64]:
    """(N,) a number for each row's group id, whatever the ids are."""
    return np.unique(np.asarray(groups), return_inverse=True)[1].astype(np.int64)


def _pair(x: Any, y: Any, *, normalize: bool) -> UnitPair:
    sources = from_array(x, "x"), from_array(y, "y")
    check_pair(*sources)
    left, right = (read_unit_rows(source, normalize=normalize) for source in sources)
    return UnitPair(left.values, right.values)


def _permutation(perm: Any, rows: int) -> NDArray[np.int64]:
    array = perm.detach().cpu().numpy() if hasattr(perm, "detach") else np.asarray(perm)
    verify_permutation(array, rows, "perm")
    return array.astype(np.int64)


def _choice(kinds: type[Any], name: str, option: str) -> Any:
    try:
        return kinds(name)
    except ValueError:
        raise BadInput(f"{option} {name!r}: expected one of {', '.join(kind.value for kind in kinds)}") from None
