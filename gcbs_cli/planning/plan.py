"""From unit rows to a permutation: the steps of `gcbs plan`, without files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import HardPairs, PassResult, find, find_hard_pairs, hard_pairs, with_every_row
from gcbs_cli.graph.measures import OrderMeasures, measure_order
from gcbs_cli.graph.weighted import weigh
from gcbs_cli.orders import Planner, PlannerInput, planner_named
from gcbs_cli.orders.finish import finish
from gcbs_cli.orders.keeping_apart import check_possible, labels_of
from gcbs_cli.orders.random_order import plan_random
from gcbs_cli.orders.refinement import Refinement
from gcbs_cli.planning.forecast import (
    check_forecast,
    describe,
    entry_limit,
    forecast,
    stays_on_device,
)
from gcbs_cli.products.operations import Backend, choose_backend
from gcbs_cli.products.threshold import Threshold, find_threshold
from gcbs_cli.products.tiles import tile_rows_for
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.errors import BadInput, OutOfDeviceMemory
from gcbs_cli.system.progress import Progress, Stopwatch

if TYPE_CHECKING:
    from gcbs_cli.plan_file.manifest import PartitionsRecord
    from gcbs_cli.planning.on_device import DevicePlan


def find_pairs(pair: PairedRows, settings: PlanSettings, top: int, watcher: Progress) -> PassResult:
    """The pass for plans with lists of up to `top`. Raises BadInput, before it, where the settings do not fit."""
    settings.check_rows(pair.rows)
    backend = choose_backend(settings.work.device)
    threshold = find_threshold(pair.grid, settings.graph, settings.seed, backend, watcher.progress)
    expected = forecast(pair, threshold, settings, backend, on_host=True, lists=top, any_method=True)
    check_forecast(pair, expected, settings)
    return find(
        pair.grid,
        threshold,
        backend,
        ties=True,
        lists=top,
        seed=settings.seed,
        tile_rows=tile_rows(settings, backend),
        progress=watcher.progress,
        limit=entry_limit(pair, expected, settings),
    )


@dataclass(frozen=True)
class GraphFigures:
    """The graph and what the order made of it; `achieved_quantile` is the exact share of entries at or below t, None
    where the pass did not count them.
    """

    edges: int
    isolated: int
    max_degree: int
    achieved_quantile: float | None
    identity: OrderMeasures
    random: OrderMeasures
    plan: OrderMeasures


@dataclass(frozen=True)
class PlanResult:
    """A permutation (N,) int64 and how it came about. `seconds`: time by step; `refinement`: what swaps did, where they
    were asked for; `suspected_inside`: suspected pairs left inside batches, where they were looked for; `partitions`:
    what the parts were, of a plan in parts, which has no threshold and figures of one graph.
    """

    perm: NDArray[np.int64]
    settings: PlanSettings
    device: str
    threshold: Threshold | None
    figures: GraphFigures | None
    seconds: dict[str, float] = field(default_factory=dict)
    refinement: Refinement | None = None
    suspected_inside: int | None = None
    partitions: "PartitionsRecord | None" = None

    @property
    def batch_size(self) -> int:
        """k, the pairs that one loss sees together."""
        return self.settings.batch_size

    @property
    def world_size(self) -> int | None:
        """The ranks that it was planned for, where any were named."""
        return self.settings.ranks.world_size

    @property
    def gather(self) -> bool:
        """Whether the loss gathers over ranks."""
        return self.settings.ranks.gather


def make_plan(
    pair: PairedRows,
    settings: PlanSettings,
    watcher: Progress | None = None,
    *,
    groups: NDArray[np.int64] | None = None,
    method_inputs: Mapping[str, Any] | None = None,
    found: PassResult | None = None,
) -> PlanResult:
    """Threshold, one pass to the edges, CSR, order, measures. The same permutation on every device and block size.

    `groups`: (N,) rows with the same id >= 0 never share a batch; `method_inputs`: data that the method alone
    understands, such as texts; `found`: a pass made already, for several plans of the
    same data.
    Raises BadInput where the settings do not fit the data, before any long work.
    """
    watcher = watcher or Progress()
    settings.check_rows(pair.rows)
    planner, clock = planner_named(settings.method), Stopwatch(watcher)
    task = _Task(pair, settings, planner, choose_backend(settings.work.device), watcher, clock)
    labels = _check_labels(pair, settings, groups)
    note = _suspects_note(planner, settings)
    if note is not None:
        watcher.note(note)
    planner.check()
    base = _find_graph(task, found) if planner.needs_graph or settings.refine else _Base()
    given = _planner_input(task, base, labels, method_inputs or {})
    with clock.step("order"):
        perm = _first_order(task, base, given)
    perm, refinement = finish(perm, given, settings, clock, base.degrees)
    with clock.step("measures"):
        figures = _measure(base, perm, settings)
    inside = _suspected_inside(base.hard, perm, settings.batch_size)
    return PlanResult(perm, settings, task.backend.name, base.threshold, figures, clock.seconds, refinement, inside)


@dataclass(frozen=True)
class _Task:
    """What the steps of one plan share."""

    pair: PairedRows
    settings: PlanSettings
    planner: Planner
    backend: Backend
    watcher: Progress
    clock: Stopwatch


@dataclass(frozen=True)
class _Base:
    """What a plan is made from: t, and the hard pairs on the host (`hard`) or on a GPU (`kept`), if it needs them."""

    threshold: Threshold | None = None
    hard: HardPairs | None = None
    kept: "DevicePlan | None" = None

    @property
    def degrees(self) -> NDArray[np.int64] | None:
        """(N,) the number of edges of each row, where there is a graph."""
        if self.kept is not None:
            return self.kept.degrees
        return None if self.hard is None else self.hard.graph.degrees


def _find_graph(task: _Task, found: PassResult | None) -> _Base:
    """The graph, from a pass made already or from one made now; limits are checked before it."""
    pair, settings, backend = task.pair, task.settings, task.backend
    if found is not None:
        with task.clock.step("graph"):
            return _Base(found.threshold, hard_pairs(pair.grid, settings, found))
    with task.clock.step("quantile"):
        threshold = find_threshold(pair.grid, settings.graph, settings.seed, backend, task.watcher.progress)
        expected = forecast(pair, threshold, settings, backend)
    check_forecast(pair, expected, settings)
    task.watcher.note(describe(expected))
    with task.clock.step("edges"):
        if stays_on_device(settings, backend):
            try:
                return _Base(threshold, kept=_kept_on_device(task, threshold))
            except OutOfDeviceMemory as error:
                task.watcher.note(f"{error.shortage}; the graph goes to the host's")
            backend.free_memory()
            expected = forecast(pair, threshold, settings, backend, on_host=True)
            check_forecast(pair, expected, settings)
        hard = find_hard_pairs(
            pair.grid,
            settings,
            threshold,
            backend,
            tile_rows=tile_rows(settings, backend),
            progress=task.watcher.progress,
            limit=entry_limit(pair, expected, settings),
        )
    return _Base(threshold, hard)


def _planner_input(
    task: _Task, base: _Base, labels: NDArray[np.int64], method_inputs: Mapping[str, Any]
) -> PlannerInput:
    pair, settings, hard = task.pair, task.settings, base.hard
    weighted = None
    if hard is not None and (task.planner.needs_weights or settings.refine):
        with task.clock.step("weights"):
            weighted = weigh(with_every_row(hard.graph, pair.grid, hard.suspects, settings.graph.top), pair)
    return PlannerInput(
        pair=pair,
        graph=hard.graph if hard else None,
        batch_size=settings.batch_order.group_size or settings.batch_size,
        seed=settings.seed,
        temperature=settings.temperature,
        weighted=weighted,
        suspects=hard.suspects if hard else None,
        labels=labels,
        bsc=settings.bsc,
        inputs=method_inputs,
        backend=task.backend,
    )


def _first_order(task: _Task, base: _Base, given: PlannerInput) -> NDArray[np.int64]:
    """What the method itself makes of it."""
    if given.batch_size == 1:  # groups of one row are mixed at random in any case
        return plan_random(given.rows, given.seed)
    return task.planner.plan(given) if base.kept is None else base.kept.order(task.settings.method)


def _measure(base: _Base, perm: NDArray[np.int64], settings: PlanSettings) -> GraphFigures | None:
    if base.hard is not None:
        return _figures(base.hard, perm, settings)
    return None if base.kept is None else _figures_of_kept(base.kept, perm, settings)


def _suspected_inside(hard: HardPairs | None, perm: NDArray[np.int64], batch_size: int) -> int | None:
    if hard is None or hard.suspects is None:
        return None
    return len(hard.suspects.in_batches(inverse(perm) // batch_size))


def _check_labels(pair: PairedRows, settings: PlanSettings, groups: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Which rows must be apart; raises BadInput where that cannot be."""
    if groups is not None and groups.shape != (pair.rows,):
        raise BadInput(f"groups: expected one id for each of the {pair.rows:,} rows, got shape {groups.shape}")
    labels = labels_of(pair, groups, no_duplicates=settings.no_duplicates)
    check_possible(labels, pair.rows, settings.batch_size, "--groups" if groups is not None else "--no-duplicates")
    return labels


def _suspects_note(planner: Planner, settings: PlanSettings) -> str | None:
    """What a method does not do about suspected pairs."""
    if not settings.false_negatives.active or settings.refine:
        return None
    if not planner.needs_graph:
        return f"--fn-margin: {settings.method} uses no graph; add --refine to keep pairs apart"
    return (
        f"{settings.method} leaves the edges of suspected pairs out and cannot keep the pairs themselves apart; "
        "add --refine for that"
    )


def tile_rows(settings: PlanSettings, backend: Backend) -> int | None:
    """Rows a tile: as asked, or what the memory given leaves, or the default."""
    if settings.work.chunk_rows is not None:
        return settings.work.chunk_rows
    return None if settings.work.max_memory is None else tile_rows_for(settings.work.max_memory // 8, backend.workers)


def _kept_on_device(task: _Task, threshold: Threshold) -> "DevicePlan":
    from gcbs_cli.planning.on_device import find_device_plan
    from gcbs_cli.products.torch_device import TorchBackend

    rows, progress = task.settings.work.chunk_rows, task.watcher.progress
    backend = cast(TorchBackend, task.backend)
    return find_device_plan(task.pair.grid, threshold.number, backend, tile_rows=rows, progress=progress)


def _figures_of_kept(kept: "DevicePlan", perm: NDArray[np.int64], settings: PlanSettings) -> GraphFigures:
    size, rows = settings.batch_size, len(perm)
    return GraphFigures(
        edges=kept.edges,
        isolated=int(np.count_nonzero(kept.degrees == 0)),
        max_degree=int(kept.degrees.max()),
        achieved_quantile=kept.achieved_quantile,
        identity=kept.measure(np.arange(rows), size),
        random=kept.measure(plan_random(rows, settings.seed), size),
        plan=kept.measure(perm, size),
    )


def _figures(hard: HardPairs, perm: NDArray[np.int64], settings: PlanSettings) -> GraphFigures:
    graph, size = hard.graph, settings.batch_size
    return GraphFigures(
        edges=graph.edges,
        isolated=int(np.count_nonzero(graph.degrees == 0)),
        max_degree=int(graph.degrees.max()),
        achieved_quantile=hard.achieved_quantile,
        identity=measure_order(graph, np.arange(graph.nodes), size),
        random=measure_order(graph, plan_random(graph.nodes, settings.seed), size),
        plan=measure_order(graph, perm, size),
    )
