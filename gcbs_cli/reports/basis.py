"""What all figures of a report share: the pass over all pairs, the graph, and what losses need beside them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import Adjacency, adjacency_from_pairs
from gcbs_cli.products.backend import Backend, choose_backend
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.global_sums import GlobalSums, SideSums, global_sums, self_sums
from gcbs_cli.products.suspects import SuspectRule
from gcbs_cli.products.threshold import Threshold, find_threshold
from gcbs_cli.products.unsuspected import largest_unsuspected
from gcbs_cli.reports.bsc import BscTerms
from gcbs_cli.reports.forecast import check_report_forecast, forecast_report, report_entry_limit
from gcbs_cli.reports.losses import AllKeys, Loss, LossKind, LossTerms, merge_sides, tolerance
from gcbs_cli.reports.representation import alignment, uniformity
from gcbs_cli.reports.triplet import TripletTerms
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.progress import Progress, Stopwatch


@dataclass
class Basis:
    """What all combinations share: the data, the pass over all pairs, the graph, and the order to report on."""

    pair: PairedRows
    settings: ReportSettings
    threshold: Threshold
    sums: GlobalSums
    graph: Adjacency
    diagonal: NDArray[np.float64]
    same_side: tuple[SideSums, SideSums] | None
    achieved_quantile: float
    product_error: float
    clock: Stopwatch
    terms: dict[Loss, LossTerms]
    alignment: float = 0.0
    uniformity: tuple[float, float] = (0.0, 0.0)


def prepare(pair: PairedRows, settings: ReportSettings, watcher: Progress) -> Basis:
    """The quantile, the passes over all pairs and the graph.

    Raises BadInput before the passes where there is too little memory for them.
    """
    clock = Stopwatch(watcher)
    backend = choose_backend(settings.device)
    with clock.step("quantile"):
        threshold = find_threshold(pair, settings.graph, settings.seed, backend, watcher)
        expected = forecast_report(pair, threshold, settings, backend, _hardest_wanted(pair, settings))
    check_report_forecast(pair, expected, settings)
    with clock.step("all pairs"):
        rule = SuspectRule(settings.fn_margin, pair.diagonal(), None, settings.groups)
        limit = report_entry_limit(pair, expected, settings)
        sums = _sums_across(pair, settings, threshold, rule, backend, watcher, limit)
        same_side = _sums_same_side(pair, settings, sums, backend, watcher)
    with clock.step("graph"):
        edges = sums.exceedances.above()
        graph = adjacency_from_pairs(pair.rows, edges.rows, edges.cols)
        achieved = 1.0 - len(edges.rows) / pair.rows**2
    terms = {
        loss: _own_terms(pair, settings, loss, sums, rule.diagonal, backend, watcher)
        for loss in settings.losses
        if loss.has_own_terms
    }
    basis = Basis(
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
    )
    with clock.step("representation"):
        basis.alignment = alignment(pair)
        basis.uniformity = uniformity(pair.x, settings.seed), uniformity(pair.y, settings.seed)
    return basis


def _own_terms(
    pair: PairedRows,
    settings: ReportSettings,
    loss: Loss,
    sums: GlobalSums,
    diagonal: NDArray[np.float64],
    backend: Backend,
    watcher: Progress,
) -> LossTerms:
    if loss.kind is LossKind.BSC:
        return BscTerms(pair, settings.labels)
    masked = [
        largest_unsuspected(
            queries,
            keys,
            sums.suspects,
            backend,
            tile_rows=settings.tile_rows,
            progress=watcher.progress,
        )
        for queries, keys in ((pair.x, pair.y), (pair.y, pair.x))
    ]
    hardest = np.stack([sums.x.hardest[:, 0], sums.y.hardest[:, 0]])
    return TripletTerms(pair, sums.suspects, loss.margin, diagonal, hardest, np.stack(masked))


def _hardest_wanted(pair: PairedRows, settings: ReportSettings) -> int:
    wanted = [loss.oracle_negatives(pair.rows, size) for loss in settings.losses for size in settings.batch_sizes]
    return max(1, min(max(wanted), pair.rows - 1))


def _sums_across(
    pair: PairedRows,
    settings: ReportSettings,
    threshold: Threshold,
    rule: SuspectRule,
    backend: Backend,
    watcher: Progress,
    limit: EntryLimit,
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
        limit=limit,
    )


def _sums_same_side(
    pair: PairedRows,
    settings: ReportSettings,
    sums: GlobalSums,
    backend: Backend,
    watcher: Progress,
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


def all_keys(basis: Basis, loss: Loss) -> list[AllKeys]:
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
