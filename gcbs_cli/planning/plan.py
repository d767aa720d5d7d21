"""From unit rows to a permutation: the steps of `gcbs plan`, without files."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import OrderMeasures
from gcbs_cli.graph.hard_pairs import HardPairs, PassResult, find, hard_pairs, list_length, weigh_every_row
from gcbs_cli.orders import METHODS, MethodInput
from gcbs_cli.orders.finish import finish, plan_random
from gcbs_cli.orders.keeping_apart import check_possible, labels_of
from gcbs_cli.orders.refinement import Refinement
from gcbs_cli.plan_file.manifest import GraphRecord, PartitionsRecord
from gcbs_cli.planning.memory import check_memory, forecast_plans
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.threshold import Threshold, find_threshold
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.progress import Progress, Stopwatch

ADVICE = "lower --per-row or --top, use fewer rows, or plan in more --partitions"
"""What lowers the memory of a plan."""


@dataclass(frozen=True)
class GraphFigures:
    """The graph and what the order made of it."""

    graph: GraphRecord
    achieved_quantile: float | None
    """The exact share of the N(N − 1) entries at or below t; None where the pass did not count them."""
    measures: dict[str, OrderMeasures]
    """Of the orders identity, random and plan."""


@dataclass(frozen=True)
class PlanResult:
    """A permutation and how it came about."""

    perm: Ints
    """(N,) row numbers: batch b is `perm[b*k:(b+1)*k]`."""
    settings: PlanSettings
    device: str
    seconds: dict[str, float]
    """By step."""
    threshold: Threshold | None = None
    """None where no graph was needed, and of a plan in parts, each of which has its own."""
    figures: GraphFigures | None = None
    refinement: Refinement | None = None
    """What swaps did, where they were asked for."""
    partitions: PartitionsRecord | None = None
    """What the parts were, of a plan in parts."""


def make_plan(
    pairs: PairedRows,
    settings: PlanSettings,
    progress: Progress | None = None,
    *,
    groups: Ints | None = None,
    texts: Sequence[str] | None = None,
    edges: PassResult | None = None,
) -> PlanResult:
    """Threshold, one pass to the edges, graph, order, measures. The same permutation on every device and tile size.

    groups: (N,) rows with the same id >= 0 never share a batch; texts: of the rows, for the method words; edges: a pass
    made already, for several plans of the same data.
    Raises BadInput where the settings do not fit the data, before any long work.
    """
    method = METHODS[settings.method]
    clock = Stopwatch(progress)
    method.check()
    settings.check_rows(pairs.rows)
    backend = choose_backend(settings.device, settings.chunk_rows)
    labels = labels_of(pairs, groups, no_duplicates=settings.no_duplicates)
    check_possible(labels, pairs.rows, settings.batch_size, "--no-duplicates" if groups is None else "--groups")
    hard, weighted = None, None
    if makes_graph(settings):
        edges = edges or find_edges(pairs, [settings], backend, clock, ADVICE)
        with clock.step("edges"):
            hard = hard_pairs(pairs, settings, edges)
        if method.needs_weights or settings.refine:
            with clock.step("weights"):
                weighted = weigh_every_row(hard, pairs, settings)
    graph = None if hard is None else hard.graph
    inputs = MethodInput(pairs, settings, backend, graph, weighted, texts)
    with clock.step("order"):
        # Groups of one row are mixed at random in any case.
        perm = plan_random(pairs.rows, settings.seed) if inputs.batch_size == 1 else method.order(inputs)
    perm, refinement = finish(perm, inputs, labels, clock)
    result = PlanResult(perm, settings, backend.name, clock.seconds, refinement=refinement)
    if hard is None or edges is None:
        return result
    with clock.step("measures"):
        figures = _figures(hard, perm, settings)
    return replace(result, threshold=edges.threshold, figures=figures)


def makes_graph(settings: PlanSettings) -> bool:
    """Whether hard pairs are found, for the method or the refinement."""
    return METHODS[settings.method].needs_graph or settings.refine


def find_edges(
    pairs: PairedRows, plans: Sequence[PlanSettings], backend: Backend, clock: Stopwatch, advice: str
) -> PassResult:
    """Threshold and one pass for plans that are alike in threshold, seed and how the work is done.

    advice: what to do where memory does not suffice. Raises BadInput before the pass, and in it, where there is no room
    for the edges.
    """
    settings = plans[0]
    progress = clock.watcher
    with clock.step("quantile"):
        forecast = forecast_plans(pairs, plans, backend)
        most = check_memory(forecast, settings, "the plan", advice, held=pairs.x.nbytes + pairs.y.nbytes)
        progress.note(f"expecting {forecast}")
        threshold = find_threshold(pairs.grid, settings, settings.seed, backend, progress.progress)
    with clock.step("edges"):
        return find(
            pairs.grid,
            threshold,
            backend,
            above=any(plan.uses_threshold for plan in plans),
            lists=max(map(list_length, plans)),
            seed=settings.seed,
            progress=progress.progress,
            most=most,
        )


def _figures(hard: HardPairs, perm: Ints, settings: PlanSettings) -> GraphFigures:
    degrees = hard.graph.degrees
    graph = GraphRecord(
        edges=hard.graph.edges,
        isolated=int(np.count_nonzero(degrees == 0)),
        max_degree=int(degrees.max()),
        kind=settings.graph,
        top=settings.top if settings.graph == "top-m" else None,
        rank_window=settings.rank_window,
    )
    orders = {"identity": np.arange(len(perm)), "random": plan_random(len(perm), settings.seed), "plan": perm}
    measures = {name: hard.graph.measure(order, settings.batch_size) for name, order in orders.items()}
    return GraphFigures(graph, hard.achieved_quantile, measures)
