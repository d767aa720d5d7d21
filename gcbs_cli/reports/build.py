"""Build gap reports: one pass over all pairs, then the plan's and the random trials' batches."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.errors import BadInput, GcbsError
from gcbs_cli.graph.adjacency import Adjacency, adjacency_from_pairs
from gcbs_cli.graph.measures import OrderMeasures, measure_order, positions
from gcbs_cli.planning import make_plan
from gcbs_cli.progress import Stopwatch, Watcher
from gcbs_cli.reports.bsc import RowLabels, bsc_terms
from gcbs_cli.reports.cross_check import (
    MOST_ROWS_IN_FULL,
    entries_above_in_double,
    row_gaps_in_double,
    sampled_rows,
)
from gcbs_cli.reports.details import ReportDetails, mean_by_batch, order_details, suspect_examples
from gcbs_cli.reports.held_apart import PairsInside, PairsToHoldApart, held_apart, pairs_to_hold_apart
from gcbs_cli.reports.in_batch import BatchSums, batch_sums
from gcbs_cli.reports.losses import (
    AllKeys,
    Loss,
    LossKind,
    LossValues,
    loss_values,
    merge_sides,
    oracle_gap,
    row_gaps,
    row_losses,
    tolerance,
)
from gcbs_cli.reports.partition_cost import PlannedParts, partition_cost
from gcbs_cli.reports.representation import alignment, uniformity
from gcbs_cli.reports.row_terms import RowTerms
from gcbs_cli.reports.schema import (
    Bounds,
    CrossCheck,
    EdgeShare,
    FalseNegatives,
    GapFigures,
    GapReport,
    GraphPart,
    HeldApart,
    LossFigures,
    MaskedGap,
    OrderFigures,
    PartitionCost,
    PositiveProbability,
    Uniformity,
)
from gcbs_cli.reports.triplet import TripletTerms
from gcbs_cli.settings import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_TEMPERATURE,
    GraphSettings,
    check_batch_size,
    check_temperature,
)
from gcbs_cli.similarity.backend import FLOAT32_UNIT_ROUNDOFF, Backend, available_cpus, choose_backend
from gcbs_cli.similarity.canonical_values import UnitPair
from gcbs_cli.similarity.global_sums import GlobalSums, SideSums, global_sums, self_sums
from gcbs_cli.similarity.suspects import SuspectPairs, SuspectRule
from gcbs_cli.similarity.unsuspected import largest_unsuspected
from gcbs_cli.threshold import Threshold, find_threshold

_TRIALS_STREAM = 0x7121A1
"""Sets the draws of the random trials apart from others of the same seed."""


@dataclass(frozen=True)
class ReportSettings:
    """What a report covers. `fn_margin`: suspected false negatives reach this share of a positive's similarity; with
    `fn_absolute` they reach it less that number instead. `groups`: (N,) ids; rows with the same one are suspected too.

    `verify`: the plan's gap and the entries above the threshold are computed once more, whole, in float64.
    `labels`: the positives of the loss `bsc`. `fn_top`: pairs of a row with one of its p hardest columns are counted;
    `duplicates`: those with equal x or equal y.
    """

    batch_sizes: Sequence[int] = (DEFAULT_BATCH_SIZE,)
    temperatures: Sequence[float] = (DEFAULT_TEMPERATURE,)
    losses: Sequence[Loss] = (Loss(LossKind.SYMMETRIC),)
    graph: GraphSettings = field(default_factory=GraphSettings)
    trials: int = 20
    seed: int = 0
    fn_margin: float = 0.95
    drop_last: bool = False
    device: str = "auto"
    tile_rows: int | None = None
    verify: bool = False
    labels: RowLabels = field(default_factory=RowLabels)
    fn_absolute: float | None = None
    groups: NDArray[np.int64] | None = None
    parts: PlannedParts | None = None
    """Of a plan that was made in parts and whose batches were not shuffled over them."""
    fn_top: int = 0
    duplicates: bool = False

    def check(self, rows: int) -> None:
        """Raises BadInput for what does not fit N rows."""
        for batch_size in self.batch_sizes:
            check_batch_size(batch_size, rows)
        for temperature in self.temperatures:
            check_temperature(temperature)
        if self.trials < 1:
            raise BadInput(
                f"--trials {self.trials}: expected at least 1; random batches are what a plan is held against"
            )
        if not 0.0 <= self.fn_margin <= 2.0:
            raise BadInput(f"--fn-margin {self.fn_margin}: expected a share of the positive's similarity, such as 0.95")
        if self.fn_top < 0:
            raise BadInput(f"--fn-top {self.fn_top}: expected 0 or more ranks")
        if self.groups is not None and self.groups.shape != (rows,):
            raise BadInput(f"groups: expected one id for each of the {rows:,} rows, got shape {self.groups.shape}")
        if self.seed < 0:
            raise BadInput(f"--seed {self.seed}: expected 0 or more")
        if self.verify and rows > MOST_ROWS_IN_FULL:
            raise BadInput(
                f"--verify: found {rows:,} rows, expected at most {MOST_ROWS_IN_FULL:,}, for it computes all pairs in "
                "float64; without it the report checks a sample of the rows"
            )
        if self.verify and any(loss.has_own_terms for loss in self.losses):
            raise BadInput("--verify: goes with --loss infonce, symmetric and simclr, which a float64 loop confirms")
        self.graph.requested_quantile(rows)


@dataclass(frozen=True)
class _OrderFigures:
    """One order at one batch size and loss: figures by temperature, its measures on the graph, its suspected pairs."""

    values: list[LossValues]
    measures: OrderMeasures
    suspects: SuspectPairs
    held_apart: PairsInside


@dataclass(frozen=True)
class _Measured:
    """One loss and batch size: all keys by temperature, the random trials, and the plan if there is one."""

    loss: Loss
    batch_size: int
    keys: list[AllKeys]
    random: list[_OrderFigures]
    plan: _OrderFigures | None
    checks: list[CrossCheck] | None
    one_graph: _OrderFigures | None = None
    perm: NDArray[np.int64] | None = None


@dataclass
class _Basis:
    """What all combinations share: the data, the pass over all pairs, the graph, and the order to report on."""

    pair: UnitPair
    settings: ReportSettings
    threshold: Threshold
    sums: GlobalSums
    graph: Adjacency
    diagonal: NDArray[np.float64]
    same_side: tuple[SideSums, SideSums] | None
    achieved_quantile: float
    product_error: float
    clock: Stopwatch
    terms: dict[Loss, RowTerms]
    to_hold_apart: PairsToHoldApart
    alignment: float = 0.0
    uniformity: tuple[float, float] = (0.0, 0.0)
    one_graph: NDArray[np.int64] | None = None


def make_reports(
    pair: UnitPair,
    perm: NDArray[np.int64] | None,
    settings: ReportSettings,
    watcher: Watcher | None = None,
) -> list[GapReport]:
    """One report for each loss, batch size and temperature, in that order of nesting.

    `perm`: the (N,) permutation to report on; None tells what random batches leave and what the oracle could close.
    Raises BadInput for settings that do not fit the data.
    """
    return _all_reports(pair, perm, settings, watcher)[0]


class OrderReports:
    """Reports on one order after the other, at the first loss, batch size and temperature: one pass over all pairs and
    one set of random trials serve them all.
    """

    def __init__(self, pair: UnitPair, settings: ReportSettings, watcher: Watcher | None = None) -> None:
        """Make the pass. Raises BadInput for settings that do not fit the data."""
        settings.check(pair.rows)
        self._basis = _prepare(pair, settings, watcher or Watcher())
        self._random = _measure(self._basis, None, settings.losses[0], settings.batch_sizes[0])

    def of(self, perm: NDArray[np.int64]) -> tuple[GapReport, NDArray[np.float64]]:
        """The report on an order, and the (B,) mean training losses of its batches."""
        basis, loss, size = self._basis, self._random.loss, self._random.batch_size
        keys = self._random.keys
        measured = replace(self._random, plan=_order_figures(basis, keys, loss, size, perm))
        sums = _sums_of(basis, loss, size, perm)
        by_place = row_losses(loss, keys[0], sums, 0, basis.settings.temperatures[0], perm)
        return _reports_of(basis, measured)[0], mean_by_batch(by_place, size)


def make_detailed_reports(
    pair: UnitPair,
    perm: NDArray[np.int64] | None,
    settings: ReportSettings,
    watcher: Watcher | None = None,
) -> tuple[list[GapReport], ReportDetails]:
    """The same, and what a page shows beyond the figures of the first combination."""
    reports, basis, first = _all_reports(pair, perm, settings, watcher)
    return reports, _details(basis, first, perm)


def _all_reports(
    pair: UnitPair, perm: NDArray[np.int64] | None, settings: ReportSettings, watcher: Watcher | None
) -> tuple[list[GapReport], _Basis, _Measured]:
    settings.check(pair.rows)
    if settings.verify and perm is None:
        raise BadInput("--verify: it is a plan's gap that is computed once more; name the plan with -p")
    basis = _prepare(pair, settings, watcher or Watcher())
    if settings.parts is not None and settings.parts.one_graph is not None:
        with basis.clock.step("one graph"):
            basis.one_graph = make_plan(pair, settings.parts.one_graph).perm
    reports: list[GapReport] = []
    first = None
    for loss in settings.losses:
        for batch_size in settings.batch_sizes:
            measured = _measure(basis, perm, loss, batch_size)
            first = first or measured
            reports += _reports_of(basis, measured)
    assert first is not None
    if settings.verify:
        _refuse_differences(basis, reports)
    return reports, basis, first


def _details(basis: _Basis, measured: _Measured, perm: NDArray[np.int64] | None) -> ReportDetails:
    pair, size = basis.pair, measured.batch_size
    rows = np.arange(pair.rows)
    random = np.random.default_rng([basis.settings.seed, _TRIALS_STREAM, 0]).permutation(pair.rows)
    losses, suspects = None, None
    if perm is not None:
        temperature = basis.settings.temperatures[0]
        sums = _sums_of(basis, measured.loss, size, perm)
        losses = mean_by_batch(row_losses(measured.loss, measured.keys[0], sums, 0, temperature, perm), size)
        suspects = measured.plan.suspects if measured.plan else None
    return ReportDetails(
        trial_losses=np.array([trial.values[0].train_loss for trial in measured.random]),
        identity=order_details(pair, basis.graph, rows, size),
        random=order_details(pair, basis.graph, random, size),
        plan=None if perm is None else order_details(pair, basis.graph, perm, size),
        perm=perm,
        batch_losses=losses,
        suspects=suspect_examples(pair, suspects, basis.diagonal, positions(perm) // size)
        if suspects is not None and perm is not None
        else [],
    )


def _prepare(pair: UnitPair, settings: ReportSettings, watcher: Watcher) -> _Basis:
    clock = Stopwatch(watcher)
    backend = choose_backend(settings.device)
    with clock.step("quantile"):
        threshold = find_threshold(pair, settings.graph, settings.seed, backend, watcher)
    with clock.step("all pairs"):
        rule = SuspectRule(settings.fn_margin, pair.diagonal(), settings.fn_absolute, settings.groups)
        sums = _sums_across(pair, settings, threshold, rule, backend, watcher)
        same_side = _sums_same_side(pair, settings, sums, backend, watcher)
    with clock.step("pairs to hold apart"):
        to_hold_apart = pairs_to_hold_apart(
            pair,
            settings.fn_top,
            settings.duplicates,
            backend,
            seed=settings.seed,
            tile_rows=settings.tile_rows,
            watcher=watcher,
        )
    with clock.step("graph"):
        edges = sums.exceedances.above()
        graph = adjacency_from_pairs(pair.rows, edges.rows, edges.cols)
        achieved = 1.0 - len(edges.rows) / pair.rows**2
    terms = {
        loss: _own_terms(pair, settings, loss, sums, rule.diagonal, backend, watcher)
        for loss in settings.losses
        if loss.has_own_terms
    }
    basis = _Basis(
        pair,
        settings,
        threshold,
        sums,
        graph,
        rule.diagonal,
        same_side,
        achieved,
        backend.error(pair.dim),
        clock,
        terms,
        to_hold_apart,
    )
    with clock.step("representation"):
        basis.alignment = alignment(pair)
        basis.uniformity = uniformity(pair.x, settings.seed), uniformity(pair.y, settings.seed)
    return basis


def _own_terms(
    pair: UnitPair,
    settings: ReportSettings,
    loss: Loss,
    sums: GlobalSums,
    diagonal: NDArray[np.float64],
    backend: Backend,
    watcher: Watcher,
) -> RowTerms:
    if loss.kind is LossKind.BSC:
        return bsc_terms(pair, settings.labels)
    masked = [
        largest_unsuspected(
            queries, keys, sums.suspects, backend, tile_rows=settings.tile_rows, progress=watcher.progress
        )
        for queries, keys in ((pair.x, pair.y), (pair.y, pair.x))
    ]
    hardest = np.stack([sums.x.hardest[:, 0], sums.y.hardest[:, 0]])
    return TripletTerms(pair, sums.suspects, loss.margin, diagonal, hardest, np.stack(masked))


def _hardest_wanted(pair: UnitPair, settings: ReportSettings) -> int:
    wanted = [loss.oracle_negatives(pair.rows, size) for loss in settings.losses for size in settings.batch_sizes]
    return max(1, min(max(wanted), pair.rows - 1))


def _sums_across(
    pair: UnitPair,
    settings: ReportSettings,
    threshold: Threshold,
    rule: SuspectRule,
    backend: Backend,
    watcher: Watcher,
) -> GlobalSums:
    return global_sums(
        pair,
        settings.temperatures,
        threshold.value,
        rule,
        _hardest_wanted(pair, settings),
        backend,
        seed=settings.seed,
        tile_rows=settings.tile_rows,
        progress=watcher.progress,
    )


def _sums_same_side(
    pair: UnitPair, settings: ReportSettings, sums: GlobalSums, backend: Backend, watcher: Watcher
) -> tuple[SideSums, SideSums] | None:
    if all(loss.kind is not LossKind.SIMCLR for loss in settings.losses):
        return None
    wanted = _hardest_wanted(pair, settings)
    x, y = (
        self_sums(
            side,
            settings.temperatures,
            sums.suspects,
            wanted,
            backend,
            seed=settings.seed,
            tile_rows=settings.tile_rows,
            progress=watcher.progress,
        )
        for side in (pair.x, pair.y)
    )
    return x, y


def _all_keys(basis: _Basis, loss: Loss) -> list[AllKeys]:
    """For each temperature, what all keys of this loss sum to."""
    across = (basis.sums.x, basis.sums.y)
    own = basis.same_side if loss.kind is LossKind.SIMCLR else None
    sides = [merge_sides(across[side], own[side] if own else None) for side in loss.sides]
    return [
        AllKeys(
            # The positive is one of the keys, however the float32 products round.
            np.stack([np.maximum(side.log_sums[number], basis.diagonal / temperature) for side in sides]),
            np.stack([np.maximum(side.masked_log_sums[number], basis.diagonal / temperature) for side in sides]),
            np.stack([side.hardest for side in sides]),
            basis.diagonal,
            loss.keys_in_all(basis.pair.rows),
            tolerance(basis.product_error, temperature),
        )
        for number, temperature in enumerate(basis.settings.temperatures)
    ]


def _measure(basis: _Basis, perm: NDArray[np.int64] | None, loss: Loss, batch_size: int) -> _Measured:
    keys = _all_keys(basis, loss)
    with basis.clock.step("random batches"):
        random = _random_trials(basis, keys, loss, batch_size)
    plan, checks = None, None
    if perm is not None:
        with basis.clock.step("planned batches"):
            plan = _order_figures(basis, keys, loss, batch_size, perm)
        with basis.clock.step("cross-check"):
            checks = None if loss.has_own_terms else _cross_checks(basis, perm, keys, loss, batch_size)
    one_graph = None if basis.one_graph is None else _order_figures(basis, keys, loss, batch_size, basis.one_graph)
    return _Measured(loss, batch_size, keys, random, plan, checks, one_graph, perm)


def _cross_checks(
    basis: _Basis, perm: NDArray[np.int64], keys: list[AllKeys], loss: Loss, batch_size: int
) -> list[CrossCheck]:
    """For each temperature, the plan's gap on some rows, or on all, against float64."""
    settings = basis.settings
    kept = _kept(basis, perm, batch_size)
    rows = kept if settings.verify else sampled_rows(kept, settings.seed)
    exact = row_gaps_in_double(basis.pair, perm, batch_size, loss, settings.temperatures, rows).gaps.mean(axis=1)
    sums = _sums_of(basis, loss, batch_size, perm)
    found = [row_gaps(loss, keys[n], sums, n, t, rows).mean() for n, t in enumerate(settings.temperatures)]
    return [
        CrossCheck(
            rows=len(rows),
            gap=float(exact[n]),
            difference=abs(float(found[n] - exact[n])),
            tolerance=tolerance(basis.product_error, temperature),
        )
        for n, temperature in enumerate(settings.temperatures)
    ]


def _refuse_differences(basis: _Basis, reports: list[GapReport]) -> None:
    """Raise GcbsError where the float64 computation of the whole does not confirm the report."""
    certain, unsure = entries_above_in_double(basis.pair, basis.threshold.value)
    found = len(basis.sums.exceedances.above().rows)
    if not certain <= found <= certain + unsure:
        raise GcbsError(
            f"--verify: {found:,} entries above the threshold, but in float64 {certain:,} to {certain + unsure:,}; "
            "do not use this report, and tell the authors of gcbs"
        )
    for report in reports:
        check = report.cross_check
        if check is not None and not check.difference <= check.tolerance:
            raise GcbsError(
                f"--verify: the gap ({report.loss_kind}, batch size {report.batch_size}, temperature "
                f"{report.temperature:g}) differs from float64's {check.gap:.6f} by {check.difference:.2g} nats, more "
                f"than rounding explains ({check.tolerance:.2g}); do not use this report, and tell the authors of gcbs"
            )


def _reports_of(basis: _Basis, measured: _Measured) -> list[GapReport]:
    identity = measure_order(basis.graph, np.arange(basis.pair.rows), measured.batch_size)
    return [_combine(basis, measured, keys, number, identity) for number, keys in enumerate(measured.keys)]


def _random_trials(basis: _Basis, keys: list[AllKeys], loss: Loss, batch_size: int) -> list[_OrderFigures]:
    from threadpoolctl import threadpool_limits

    def trial(number: int) -> _OrderFigures:
        order = np.random.default_rng([basis.settings.seed, _TRIALS_STREAM, number]).permutation(basis.pair.rows)
        return _order_figures(basis, keys, loss, batch_size, order.astype(np.int64))

    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(available_cpus()) as pool:
        return list(pool.map(trial, range(basis.settings.trials)))


def _sums_of(basis: _Basis, loss: Loss, batch_size: int, perm: NDArray[np.int64]) -> BatchSums:
    return batch_sums(
        basis.pair,
        perm,
        batch_size,
        basis.settings.temperatures,
        basis.sums.suspects,
        keys=loss.keys,
        queue_batches=loss.queue_batches,
    )


def _kept(basis: _Basis, perm: NDArray[np.int64], batch_size: int) -> NDArray[np.int64]:
    """The rows that are counted: all, or those of full batches."""
    rows = basis.pair.rows
    return perm[: rows - rows % batch_size] if basis.settings.drop_last else perm


def _order_figures(
    basis: _Basis, keys: list[AllKeys], loss: Loss, batch_size: int, perm: NDArray[np.int64]
) -> _OrderFigures:
    temperatures = basis.settings.temperatures
    sums = _sums_of(basis, loss, batch_size, perm)
    kept = _kept(basis, perm, batch_size)
    if loss in basis.terms:
        own = basis.terms[loss].of_order(perm, batch_size)
        values = [own.values(keys[number], sums, number, t, kept) for number, t in enumerate(temperatures)]
    else:
        values = [loss_values(loss, keys[number], sums, number, t, kept) for number, t in enumerate(temperatures)]
    batch_of_row = positions(perm) // batch_size
    return _OrderFigures(
        values,
        measure_order(basis.graph, perm, batch_size),
        basis.sums.suspects.in_batches(batch_of_row),
        basis.to_hold_apart.inside(batch_of_row),
    )


def _ratio(part: float, whole: float, temperature: float) -> float | None:
    """part / whole; None where the whole is nothing but the rounding of float32 similarities."""
    return None if abs(whole) <= max(1e-9, FLOAT32_UNIT_ROUNDOFF / temperature) else part / whole


def _reduction(plan: float | None, random: float, temperature: float) -> float | None:
    share = None if plan is None else _ratio(plan, random, temperature)
    return None if share is None else 1.0 - share


def _combine(basis: _Basis, measured: _Measured, keys: AllKeys, number: int, identity: OrderMeasures) -> GapReport:
    loss, batch_size, trials, plan = measured.loss, measured.batch_size, measured.random, measured.plan
    temperature = basis.settings.temperatures[number]
    planned = plan.values[number] if plan else None
    own = basis.terms.get(loss)
    everything = (
        own.everything(keys, temperature) if own else float((keys.log_sums - basis.diagonal / temperature).mean())
    )
    probability = float(np.exp(basis.diagonal / temperature - keys.log_sums).mean())
    return GapReport(
        n=basis.pair.rows,
        dim=basis.pair.dim,
        batch_size=batch_size,
        temperature=temperature,
        loss_kind=loss.name,
        loss=LossFigures(
            global_=planned.global_loss if planned else everything,
            plan=planned.train_loss if planned else None,
            random_mean=float(np.mean([trial.values[number].train_loss for trial in trials])),
            random_std=_deviation([trial.values[number].train_loss for trial in trials]),
        ),
        gap=_gap_figures(basis, keys, loss, batch_size, number, trials, planned),
        bounds=Bounds(
            translation=planned.translation_bound if planned else None,
            logsumexp=planned.logsumexp_bound if planned else None,
        ),
        positive_probability=PositiveProbability(
            global_=probability,
            plan=planned.positive_probability if planned else None,
            random=float(np.mean([trial.values[number].positive_probability for trial in trials])),
        ),
        **_graph_figures(basis, trials, plan, identity),
        alignment=basis.alignment,
        uniformity=Uniformity(x=basis.uniformity[0], y=basis.uniformity[1]),
        mutual_information_bound=log(batch_size) - planned.train_loss
        if planned and (own is None or own.in_nats)
        else None,
        cross_check=measured.checks[number] if measured.checks else None,
        partitions=_partition_cost(basis, measured, number),
        timings=dict(basis.clock.seconds),
    )


def _partition_cost(basis: _Basis, measured: _Measured, number: int) -> PartitionCost | None:
    parts, plan, one_graph = basis.settings.parts, measured.plan, measured.one_graph
    if parts is None or plan is None or measured.perm is None:
        return None
    random = float(np.mean([trial.values[number].gap for trial in measured.random]))
    temperature = basis.settings.temperatures[number]
    return partition_cost(
        parts,
        basis.graph,
        measured.perm,
        _reduction(plan.values[number].gap, random, temperature),
        _reduction(one_graph.values[number].gap, random, temperature) if one_graph else None,
    )


def _deviation(values: list[float]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _gap_figures(
    basis: _Basis,
    keys: AllKeys,
    loss: Loss,
    batch_size: int,
    number: int,
    trials: list[_OrderFigures],
    planned: LossValues | None,
) -> GapFigures:
    temperature = basis.settings.temperatures[number]
    gaps = [trial.values[number].gap for trial in trials]
    random = float(np.mean(gaps))
    masked_random = float(np.mean([trial.values[number].masked_gap for trial in trials]))
    own, negatives = basis.terms.get(loss), loss.oracle_negatives(basis.pair.rows, batch_size)
    oracle = own.oracle(keys, negatives, temperature) if own else oracle_gap(keys, negatives, temperature)
    comparable = own is None or own.comparable
    gap = planned.gap if planned else None
    masked = planned.masked_gap if planned else None
    return GapFigures(
        plan=gap,
        random_mean=random,
        random_std=_deviation(gaps),
        oracle=oracle,
        reduction=_reduction(gap, random, temperature),
        closed_share=None if gap is None or not comparable else _ratio(random - gap, random - oracle, temperature),
        masked=MaskedGap(
            plan=masked, random_mean=masked_random, reduction=_reduction(masked, masked_random, temperature)
        ),
    )


def _graph_figures(
    basis: _Basis, trials: list[_OrderFigures], plan: _OrderFigures | None, identity: OrderMeasures
) -> dict[str, Any]:
    measures = [trial.measures for trial in trials]
    shares = [m.in_batch_edge_share for m in measures if m.in_batch_edge_share is not None]
    degrees = basis.graph.degrees
    return {
        "graph": GraphPart(
            threshold=basis.threshold.value,
            quantile=basis.achieved_quantile,
            edges=basis.graph.edges,
            isolated=int(np.count_nonzero(degrees == 0)),
            max_degree=int(degrees.max()),
        ),
        "bandwidth": OrderFigures(
            identity=identity.bandwidth,
            random=float(np.mean([m.bandwidth for m in measures])),
            plan=plan.measures.bandwidth if plan else None,
        ),
        "profile": OrderFigures(
            identity=identity.profile,
            random=float(np.mean([m.profile for m in measures])),
            plan=plan.measures.profile if plan else None,
        ),
        "in_batch_edge_share": EdgeShare(
            random=float(np.mean(shares)) if shares else None,
            plan=plan.measures.in_batch_edge_share if plan else None,
        ),
        "false_negatives": FalseNegatives(
            suspected_pairs=len(plan.suspects) if plan else None,
            random=float(np.mean([len(trial.suspects) for trial in trials])),
            rows=plan.suspects.rows() if plan else None,
            top_ranks=basis.settings.fn_top or None,
            **_held_apart(basis, trials, plan),
        ),
    }


def _held_apart(basis: _Basis, trials: list[_OrderFigures], plan: _OrderFigures | None) -> dict[str, HeldApart | None]:
    everything = basis.to_hold_apart.inside(np.zeros(basis.pair.rows, np.int64))
    inside = [trial.held_apart for trial in trials]
    planned = plan.held_apart if plan else None
    return {name: held_apart(name, everything, planned, inside) for name in ("top", "duplicates")}
