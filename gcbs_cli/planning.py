"""From unit rows to a permutation: the steps of `gcbs plan`, without files."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.checkpoints import Checkpoints
from gcbs_cli.errors import BadInput
from gcbs_cli.finishing import finish
from gcbs_cli.graph.measures import OrderMeasures, measure_order, positions
from gcbs_cli.graph.weighted import weigh
from gcbs_cli.hard_pairs import HardPairs, find_hard_pairs, hard_pairs_among, lists_wanted, with_every_row
from gcbs_cli.memory import SHARE_TO_USE, available_memory, show_size
from gcbs_cli.planners import Planner, PlannerInput, planner_named
from gcbs_cli.planners.keeping_apart import check_possible, labels_of
from gcbs_cli.planners.random_order import plan_random
from gcbs_cli.planners.refinement import Refinement
from gcbs_cli.progress import Stopwatch, Watcher
from gcbs_cli.settings import GraphSettings, PlanSettings
from gcbs_cli.similarity.affinity import draw_affinity_sample
from gcbs_cli.similarity.backend import Backend, choose_backend
from gcbs_cli.similarity.canonical_values import UnitPair
from gcbs_cli.similarity.entry_limit import EntryLimit
from gcbs_cli.similarity.quantile import (
    QuantileEstimate,
    QuantileMethod,
    confirm_threshold,
    draw_sample,
    estimate_quantile,
)
from gcbs_cli.similarity.tiles import DEFAULT_TILE_COLS, tile_rows_for
from gcbs_cli.similarity.top_candidates import Candidates, find_candidates

if TYPE_CHECKING:
    from gcbs_cli.device_planning import DevicePlan

BYTES_PER_EDGE = 72
"""Peak memory for one directed entry above the threshold: found, joined, sorted both ways, ordered (measured)."""
CHECKPOINT_BYTES_PER_ENTRY = 16
"""Row, column (int32) and value (float64) of an entry in a block of --work-dir."""
LISTED_PER_PLACE = 5
"""Entries that the pass holds for each place of the hardest lists of rows and columns: candidates beyond them."""
TRIAL_ROWS = 512


@dataclass(frozen=True)
class Threshold:
    """Where edges begin: t, and where it was estimated, the estimate."""

    value: float
    estimate: QuantileEstimate | None


@dataclass(frozen=True)
class FoundPairs:
    """One pass for several plans: t, the entries from t on, and the hardest of each row and column."""

    threshold: Threshold
    candidates: Candidates


def find_pairs(pair: UnitPair, settings: PlanSettings, top: int, watcher: Watcher) -> FoundPairs:
    """The pass for plans with lists of up to `top`. Raises BadInput, before it, where the settings do not fit."""
    settings.check_rows(pair.rows)
    backend = choose_backend(settings.device)
    threshold = find_threshold(pair, settings.graph, settings.seed, backend, watcher)
    expected = forecast(pair, threshold, settings, backend, checkpoints=True, lists=top)
    check_forecast(pair, expected, settings)
    candidates = find_candidates(
        pair,
        threshold.value,
        top,
        backend,
        seed=settings.seed,
        tile_rows=tile_rows(settings, backend),
        progress=watcher.progress,
        limit=entry_limit(pair, expected, settings),
    )
    return FoundPairs(threshold, candidates)


@dataclass(frozen=True)
class Forecast:
    """What the pass will find and need: directed entries above t, bytes at the peak, seconds of float32 products.

    `entry_bytes`: the part of `memory` that each entry takes: none of this machine's where the graph stays on a GPU;
    `listed`: the entries that the lists of the hardest hold, whatever the quantile;
    `tied`: how many of the entries equal t, where these are looked at too, for suspected pairs.
    """

    entries: int
    memory: int
    seconds: float
    entry_bytes: int = BYTES_PER_EDGE
    listed: int = 0
    tied: int = 0

    def entries_within(self, limit: int) -> int:
        """How many entries this much memory holds."""
        return (limit - (self.memory - self.entry_bytes * self.entries)) // max(self.entry_bytes, 1)


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
    were asked for; `suspected_inside`: suspected pairs left inside batches, where they were looked for.
    """

    perm: NDArray[np.int64]
    settings: PlanSettings
    device: str
    threshold: Threshold | None
    figures: GraphFigures | None
    seconds: dict[str, float] = field(default_factory=dict)
    refinement: Refinement | None = None
    suspected_inside: int | None = None


def find_threshold(pair: UnitPair, graph: GraphSettings, seed: int, backend: Backend, watcher: Watcher) -> Threshold:
    """t by the settings: given, or the quantile estimated."""
    quantile = graph.requested_quantile(pair.rows)
    if quantile is None:
        assert graph.threshold is not None
        return Threshold(graph.threshold, None)
    if graph.pairs == "all":
        estimate = draw_affinity_sample(pair, quantile, seed).estimate(quantile, QuantileMethod.SAMPLE)
        return Threshold(estimate.threshold, estimate)
    if graph.warm_start is not None:
        confirmed = confirm_threshold(pair, quantile, graph.warm_start, seed)
        if confirmed is not None:
            return Threshold(confirmed.threshold, confirmed)
        watcher.note("the earlier plan's threshold no longer fits the embeddings; estimating it anew")
    method = QuantileMethod(graph.method)
    estimate = estimate_quantile(pair, quantile, method=method, seed=seed, backend=backend, progress=watcher.progress)
    return Threshold(estimate.threshold, estimate)


def _threshold(
    pair: UnitPair, settings: PlanSettings, backend: Backend, watcher: Watcher, checkpoints: Checkpoints | None
) -> Threshold:
    """t, from the checkpoints where they have it: the exact quantile is a pass of its own."""

    def find() -> dict[str, Any]:
        return asdict(find_threshold(pair, settings.graph, settings.seed, backend, watcher))

    found = find() if checkpoints is None else checkpoints.value("threshold", find)
    estimate = found["estimate"]
    if estimate is not None:
        estimate = QuantileEstimate(**estimate | {"method": QuantileMethod(estimate["method"])})
    return Threshold(found["value"], estimate)


def forecast(
    pair: UnitPair,
    threshold: Threshold,
    settings: PlanSettings,
    backend: Backend,
    *,
    checkpoints: bool = False,
    lists: int | None = None,
) -> Forecast:
    """Edges, memory and time of the pass, from a sample and a timed product; checkpoints bring edges to the host.

    `lists`: how long the lists of the hardest are, by default as the settings need them.
    """
    quantile = settings.graph.requested_quantile(pair.rows)
    ties = settings.false_negatives.needs_threshold
    share, tied = 1.0 - quantile if quantile is not None else 0.0, 0.0
    if threshold.estimate is not None:
        share = min(share, 1.0 - threshold.estimate.low)  # less where many entries equal t
    if quantile is None or ties:
        draw = draw_affinity_sample if settings.graph.pairs == "all" else draw_sample
        sample = draw(pair, 0.999, settings.seed)
        above = sample.share_above(threshold.value)
        tied = sample.share_reaching(threshold.value) - above if ties else 0.0
        share = max(share, above + tied)
    entries = round(share * pair.rows**2) if settings.graph.uses_threshold or ties else 0
    listed = LISTED_PER_PLACE * (lists_wanted(settings) if lists is None else lists) * pair.rows
    entries += listed
    embeddings = 2 * pair.rows * pair.dim * 4
    scratch = backend.workers * DEFAULT_TILE_COLS * 1024 * 9
    entry_bytes = 0 if _on_device(settings, backend) and not checkpoints else BYTES_PER_EDGE
    memory = embeddings + scratch + entry_bytes * entries
    return Forecast(entries, memory, _pass_seconds(pair, backend), entry_bytes, listed, round(tied * pair.rows**2))


def _pass_seconds(pair: UnitPair, backend: Backend) -> float:
    """Seconds for all products at the rate of a small one (about a hundredth of a second)."""
    rows = min(pair.rows, TRIAL_ROWS)
    x, y = backend.load(pair.x[:rows]), backend.load(pair.y[:rows])
    part = slice(0, rows)
    with backend.running():
        backend.above(backend.product(x, y, part, part), 1.0)
        began = time.perf_counter()
        backend.above(backend.product(x, y, part, part), 1.0)
        seconds = time.perf_counter() - began
    return seconds * (pair.rows / rows) ** 2 / backend.workers


def check_forecast(pair: UnitPair, expected: Forecast, settings: PlanSettings) -> None:
    """Raises BadInput before any long work when the edges or the memory are more than allowed."""
    if settings.max_edges is not None and expected.entries > settings.max_edges:
        raise BadInput(
            f"--max-edges {settings.max_edges:,}: about {expected.entries:,} entries lie above the threshold; "
            f"{_tied_advice(expected) or _fitting(pair, expected, settings, settings.max_edges)}"
        )
    limit = _memory_limit(pair, settings)
    if expected.memory > limit:
        raise BadInput(
            f"--max-memory {show_size(limit)}: the plan would need about {show_size(expected.memory)} "
            f"({expected.entries:,} entries above the threshold); "
            f"{_advice(pair, expected, settings, expected.entries_within(limit))}"
        )


def entry_limit(pair: UnitPair, expected: Forecast, settings: PlanSettings) -> EntryLimit | None:
    """What the pass may find on this machine before it is stopped: what fits, or more than a sample errs."""
    if expected.entry_bytes == 0:
        return None
    most = max(expected.entries_within(_memory_limit(pair, settings)), 2 * expected.entries + pair.rows)
    return EntryLimit(most, "use a higher --quantile, or leave out rows that are equal or nearly so")


def _memory_limit(pair: UnitPair, settings: PlanSettings) -> int:
    return settings.max_memory or int(SHARE_TO_USE * available_memory() + 2 * pair.rows * pair.dim * 4)


def _tied_advice(expected: Forecast) -> str | None:
    if 2 * expected.tied <= expected.entries:
        return None
    return (
        f"{expected.tied:,} of them equal it, as products of equal rows do, and no --quantile parts them; leave out "
        "equal rows, or leave out --fn-margin and --fn-absolute"
    )


def _advice(pair: UnitPair, expected: Forecast, settings: PlanSettings, fits: int) -> str:
    tied = _tied_advice(expected)
    if tied is not None:
        return tied
    return (
        _fitting(pair, expected, settings, fits)
        if fits > pair.rows
        else "use fewer rows, or a machine with more memory"
    )


def _fitting(pair: UnitPair, expected: Forecast, settings: PlanSettings, fits: int) -> str:
    """Which options make `fits` entries or fewer: a higher quantile, or shorter lists where they take the room."""
    above, room = expected.entries - expected.listed, fits - expected.listed
    if not expected.listed or (above and room >= pair.rows):
        return f"{_fitting_quantile(pair, room)} would fit"
    kept = above if 2 * above <= fits else fits // 2
    length = (fits - kept) // (LISTED_PER_PLACE * pair.rows)
    advice = _shorter_lists(settings, length) if length else []
    if length and kept < above:
        advice.append(_fitting_quantile(pair, kept))
    return f"{' and '.join(advice)} would fit" if advice else "the lists of the hardest alone hold more; use fewer rows"


def _shorter_lists(settings: PlanSettings, length: int) -> list[str]:
    """The options that ask for lists longer than that, with what to give instead."""
    graph, found = settings.graph, []
    if graph.rank_window is not None:
        if sum(graph.rank_window) > length:
            found.append(f"--rank-window P:M with P + M = {length}")
    elif graph.kind == "top-m" and graph.top > length:
        found.append(f"--top {length}")
    if settings.false_negatives.top > length:
        found.append(f"--fn-top {length}")
    return found


def _fitting_quantile(pair: UnitPair, entries: int) -> str:
    # In integers, with two digits of the share above however small it is, and that rounded down.
    digits = max(7, len(str(pair.rows**2 // entries)) + 2)
    above = entries * 10**digits // pair.rows**2
    quantile = f"0.{10**digits - above:0{digits}d}".rstrip("0")
    return f"--quantile {quantile} (about {entries / pair.rows:.3g} a row)"


def make_plan(
    pair: UnitPair,
    settings: PlanSettings,
    watcher: Watcher | None = None,
    *,
    groups: NDArray[np.int64] | None = None,
    method_inputs: Mapping[str, Any] | None = None,
    checkpoints: Checkpoints | None = None,
    found: FoundPairs | None = None,
) -> PlanResult:
    """Threshold, one pass to the edges, CSR, order, measures. The same permutation on every device and block size.

    `groups`: (N,) rows with the same id >= 0 never share a batch; `method_inputs`: data that the method alone
    understands, such as texts, beside `settings.method_options`; `checkpoints`: where the pass keeps what it has found;
    `found`: a pass made already, for several plans of the same data.
    Raises BadInput where the settings do not fit the data, before any long work.
    """
    watcher = watcher or Watcher()
    settings.check_rows(pair.rows)
    planner, clock = planner_named(settings.method), Stopwatch(watcher)
    task = _Task(pair, settings, planner, choose_backend(settings.device), watcher, clock, checkpoints)
    labels = _check_labels(pair, settings, groups)
    note = _suspects_note(planner, settings)
    if note is not None:
        watcher.note(note)
    planner.check()
    base = _find_graph(task, found) if planner.needs_graph or settings.refine else _Base()
    given = _planner_input(task, base, labels, method_inputs or {})
    with clock.step("order"):
        perm = _first_order(task, base, given)
    perm, refinement = finish(perm, given, pair, settings, clock)
    with clock.step("measures"):
        figures = _measure(base, perm, settings)
    inside = _suspected_inside(base.hard, perm, settings.batch_size)
    return PlanResult(perm, settings, task.backend.name, base.threshold, figures, clock.seconds, refinement, inside)


@dataclass(frozen=True)
class _Task:
    """What the steps of one plan share."""

    pair: UnitPair
    settings: PlanSettings
    planner: Planner
    backend: Backend
    watcher: Watcher
    clock: Stopwatch
    checkpoints: Checkpoints | None


@dataclass(frozen=True)
class _Base:
    """What a plan is made from: t, and the hard pairs on the host (`hard`) or on a GPU (`kept`), if it needs them."""

    threshold: Threshold | None = None
    hard: HardPairs | None = None
    kept: "DevicePlan | None" = None


def _find_graph(task: _Task, found: FoundPairs | None) -> _Base:
    """The graph, from a pass made already or from one made now; limits are checked before it."""
    pair, settings, backend = task.pair, task.settings, task.backend
    if found is not None:
        with task.clock.step("graph"):
            return _Base(found.threshold, hard_pairs_among(pair, settings, found.candidates, backend))
    with task.clock.step("quantile"):
        threshold = _threshold(pair, settings, backend, task.watcher, task.checkpoints)
        expected = forecast(pair, threshold, settings, backend, checkpoints=task.checkpoints is not None)
    check_forecast(pair, expected, settings)
    task.watcher.note(describe(expected))
    if task.checkpoints is not None:
        task.checkpoints.check_room(CHECKPOINT_BYTES_PER_ENTRY * expected.entries)
    with task.clock.step("edges"):
        if _on_device(settings, backend) and task.checkpoints is None:
            return _Base(threshold, kept=_graph_on_device(pair, settings, threshold.value, backend, task.watcher))
        hard = find_hard_pairs(
            pair,
            settings,
            threshold.value,
            backend,
            tile_rows=tile_rows(settings, backend),
            progress=task.watcher.progress,
            store=task.checkpoints,
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
            weighted = weigh(with_every_row(hard.graph, pair, hard.suspects, settings.graph.top), pair)
    return PlannerInput(
        rows=pair.rows,
        graph=hard.graph if hard else None,
        batch_size=settings.batch_order.group_size or settings.batch_size,
        seed=settings.seed,
        temperature=settings.temperature,
        pair=pair,
        weighted=weighted,
        suspects=hard.suspects if hard else None,
        labels=labels,
        options={**settings.method_options, **method_inputs},
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
    return len(hard.suspects.in_batches(positions(perm) // batch_size))


def _check_labels(pair: UnitPair, settings: PlanSettings, groups: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Which rows must be apart; raises BadInput where that cannot be."""
    if groups is not None and groups.shape != (pair.rows,):
        raise BadInput(f"groups: expected one id for each of the {pair.rows:,} rows, got shape {groups.shape}")
    labels = labels_of(pair, groups, no_duplicates=settings.no_duplicates)
    check_possible(labels, pair.rows, settings.batch_size, "--groups" if groups is not None else "--no-duplicates")
    return labels


def _suspects_note(planner: Planner, settings: PlanSettings) -> str | None:
    """What a method does not do about suspected pairs."""
    if not settings.false_negatives.active or settings.refine or planner.penalises_suspects:
        return None
    if not planner.needs_graph:
        return (
            f"--fn-margin, --fn-absolute, --fn-top: {settings.method} uses no graph; add --refine to keep pairs apart"
        )
    return (
        f"{settings.method} leaves the edges of suspected pairs out and cannot keep the pairs themselves apart; "
        "add --refine for that"
    )


def tile_rows(settings: PlanSettings, backend: Backend) -> int | None:
    """Rows a tile: as asked, or what the memory given leaves, or the default."""
    if settings.tile_rows is not None:
        return settings.tile_rows
    return None if settings.max_memory is None else tile_rows_for(settings.max_memory // 8, backend.workers)


def describe(expected: Forecast) -> str:
    """The forecast as one line."""
    return (
        f"expecting about {expected.entries:,} entries above the threshold, "
        f"{show_size(expected.memory)} of memory and about {expected.seconds:.1f} s for the pass"
    )


def _on_device(settings: PlanSettings, backend: Backend) -> bool:
    """Whether the graph can stay on a GPU from its edges to its order."""
    return (
        backend.name.startswith("cuda")
        and settings.method in ("rcm", "cm")
        and settings.graph.uses_threshold
        and settings.graph.pairs == "xy"
        and lists_wanted(settings) == 0
        and not (settings.refine or settings.false_negatives.active)
    )


def _graph_on_device(
    pair: UnitPair, settings: PlanSettings, threshold: float, backend: Backend, watcher: Watcher
) -> "DevicePlan":
    from gcbs_cli.device_planning import find_device_plan

    return find_device_plan(pair, threshold, backend.name, strip_rows=settings.tile_rows, progress=watcher.progress)


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
