"""From unit rows to a permutation: the steps of `gcbs plan`, without files."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import OrderMeasures
from gcbs_cli.graph.hard_pairs import HardPairs, PassResult, find, hard_pairs, lists_wanted, weigh_every_row
from gcbs_cli.orders import METHODS, MethodInput
from gcbs_cli.orders.finish import finish, plan_random
from gcbs_cli.orders.keeping_apart import check_possible, labels_of
from gcbs_cli.orders.refinement import Refinement
from gcbs_cli.plan_file.manifest import PartitionsRecord
from gcbs_cli.planning.room import check_room, forecast
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import EntryLimit
from gcbs_cli.products.threshold import Threshold, find_threshold
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.arrays import Ints, inverse
from gcbs_cli.system.progress import Progress, Stopwatch


@dataclass(frozen=True)
class GraphFigures:
    """The graph and what the order made of it."""

    edges: int
    isolated: int
    max_degree: int
    achieved_quantile: float | None
    """The exact share of entries at or below t; None where the pass did not count them."""
    identity: OrderMeasures
    random: OrderMeasures
    plan: OrderMeasures


@dataclass(frozen=True)
class PlanResult:
    """A permutation and how it came about."""

    perm: Ints
    """(N,) row numbers: batch b is `perm[b*k:(b+1)*k]`."""
    settings: PlanSettings
    device: str
    threshold: Threshold | None = None
    """None where no graph was needed, and of a plan in parts, each of which has its own."""
    figures: GraphFigures | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    """By step."""
    refinement: Refinement | None = None
    """What swaps did, where they were asked for."""
    too_hard_inside: int | None = None
    """Pairs that are too hard left inside batches, where they were looked for."""
    partitions: PartitionsRecord | None = None
    """What the parts were, of a plan in parts."""


class Run:
    """What the steps of a plan, or of several that share a pass, need: rows, settings, a device, and who watches."""

    def __init__(
        self,
        rows: PairedRows,
        plans: Sequence[PlanSettings],
        progress: Progress | None,
        *,
        taken: int = 0,
        advice: str = "use fewer rows, or more parts with --partitions",
    ) -> None:
        """plans: alike in quantile, seed and how the work is done; advice: what helps where memory does not suffice.

        Raises BadInput where the settings do not fit the rows, and for a GPU that is not there.
        """
        settings = plans[0]
        settings.check_rows(rows.rows)
        self._taken, self._advice = taken, advice
        self.rows, self.plans, self.settings, self.progress = rows, plans, settings, progress or Progress()
        self.device, self.clock = choose_backend(settings.device), Stopwatch(self.progress)
        self.device.tile_rows = settings.chunk_rows

    def threshold(self) -> Threshold:
        """t by the settings. Raises BadInput where there is no room for the sample that it comes from."""
        grid = self.rows.grid  # counted as taken already
        self.expect(None)
        return find_threshold(grid, self.settings, self.settings.seed, self.device, self.progress.progress)

    def expect(self, threshold: Threshold | None) -> EntryLimit:
        """How much the pass may find. Raises BadInput where there is no room for what it will, by the `forecast`."""
        rows, settings = self.rows, self.settings
        expected = forecast(rows, threshold, self.plans, self.device).beside(self._taken)
        limit = check_room(rows.rows, expected, settings, "the plan", self._advice, settings.max_edges)
        if threshold is not None:
            self.progress.note(f"expecting {expected}")
        return limit

    def find(self, threshold: Threshold) -> PassResult:
        """The pass over all pairs, refused before it, and stopped in it, where there is no room for what it finds."""
        return find(
            self.rows.grid,
            threshold,
            self.device,
            above=any(plan.uses_threshold for plan in self.plans),
            lists=max(map(lists_wanted, self.plans)),
            seed=self.settings.seed,
            progress=self.progress.progress,
            limit=self.expect(threshold),
        )


def find_pairs(rows: PairedRows, plans: Sequence[PlanSettings], progress: Progress) -> PassResult:
    """One pass for several plans. Raises BadInput where the settings do not fit."""
    run = Run(rows, plans, progress, advice="use fewer rows")
    return run.find(run.threshold())


def make_plan(
    rows: PairedRows,
    settings: PlanSettings,
    progress: Progress | None = None,
    *,
    groups: Ints | None = None,
    texts: Sequence[str] | None = None,
    found: PassResult | None = None,
    taken: int = 0,
) -> PlanResult:
    """Threshold, one pass to the edges, graph, order, measures. The same permutation on every device and tile size.

    `groups`: (N,) rows with the same id >= 0 never share a batch; `texts`: of the rows, for the method words; `found`:
    a pass made already, for several plans of the same data; `taken`: bytes that are held beside the rows, as in a plan
    in parts.
    Raises BadInput where the settings do not fit the data, before any long work.
    """
    method, run = METHODS[settings.method], Run(rows, [settings], progress, taken=taken)
    labels = labels_of(rows, groups, no_duplicates=settings.no_duplicates)
    check_possible(labels, rows.rows, settings.batch_size, "--groups" if groups is not None else "--no-duplicates")
    if settings.fn_margin is not None and not settings.refine:
        run.progress.note(
            f"--fn-margin: {settings.method} alone cannot keep apart pairs that are too hard; add --refine"
        )
    method.check()
    threshold, hard, weighted = None, None, None
    if method.needs_graph or settings.refine:
        threshold, hard = _find_graph(run, found)
        if method.needs_weights or settings.refine:
            with run.clock.step("weights"):
                weighted = weigh_every_row(hard, rows, settings)
    graph = None if hard is None else hard.graph
    given = MethodInput(rows, settings, run.device, graph, weighted, texts)
    with run.clock.step("order"):
        alone = given.batch_size == 1  # groups of one row are mixed at random in any case
        perm = plan_random(rows.rows, settings.seed) if alone else method.order(given)
    perm, refinement = finish(perm, given, labels, run.clock)
    with run.clock.step("measures"):
        figures = None if hard is None else _figures(hard, perm, settings)
    inside = None
    if hard is not None and hard.weighted is not None:
        inside = hard.weighted.too_hard_inside(inverse(perm) // settings.batch_size)
    return PlanResult(perm, settings, run.device.name, threshold, figures, run.clock.seconds, refinement, inside)


def _find_graph(run: Run, found: PassResult | None) -> tuple[Threshold, HardPairs]:
    """t and the graph: of what a pass has found already, else of one made now."""
    if found is None:
        with run.clock.step("quantile"):
            threshold = run.threshold()
    with run.clock.step("edges"):
        found = found or run.find(threshold)
        return found.threshold, hard_pairs(run.rows, run.settings, found)


def _figures(hard: HardPairs, perm: Ints, settings: PlanSettings) -> GraphFigures:
    orders, degrees = (np.arange(len(perm)), plan_random(len(perm), settings.seed), perm), hard.graph.degrees
    isolated, measures = int(np.count_nonzero(degrees == 0)), hard.graph.measure(orders, settings.batch_size)
    return GraphFigures(hard.graph.edges, isolated, int(degrees.max()), hard.achieved_quantile, *measures)
