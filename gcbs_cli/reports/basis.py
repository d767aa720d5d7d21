"""What all figures of a report share: the pass over all pairs, the graph, and what losses need beside them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import Adjacency, adjacency_from_pairs
from gcbs_cli.graph.hard_pairs import find
from gcbs_cli.planning.room import check_room, entry_limit, forecast_report
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import Backend, float32_error
from gcbs_cli.products.sums import SideSums, loss_sums
from gcbs_cli.products.suspects import SuspectPairs, pairs_of, suspected
from gcbs_cli.products.threshold import Threshold, find_threshold
from gcbs_cli.reports.bsc import BscTerms, RowLabels
from gcbs_cli.reports.losses import AllKeys, LossTerms, merge_sides, tolerance
from gcbs_cli.reports.representation import alignment, uniformity
from gcbs_cli.reports.triplet import TripletTerms
from gcbs_cli.settings.report import Loss, LossKind, ReportSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress, Stopwatch


@dataclass(frozen=True)
class RowFacts:
    """What is known of the rows beside their embeddings. `labels`: the positives of the loss `bsc`; `groups`: (N,) ids,
    rows with the same one are suspected too; `part_sizes`: rows of each part, in plan order, of a plan that was made in
    parts and whose batches stayed in them.
    """

    labels: RowLabels = field(default_factory=RowLabels)
    groups: NDArray[np.int64] | None = None
    part_sizes: Sequence[int] | None = None


@dataclass
class ReportInputs:
    """What all combinations share: the data, the graph and the suspected pairs, the sums over all keys across the sides
    and, for a loss that needs them, within each, and the order to report on.
    """

    pair: PairedRows
    settings: ReportSettings
    facts: RowFacts
    threshold: Threshold
    graph: Adjacency
    suspects: SuspectPairs
    across: tuple[SideSums, SideSums]
    same_side: tuple[SideSums, SideSums] | None
    diagonal: NDArray[np.float64]
    achieved_quantile: float
    clock: Stopwatch
    terms: dict[Loss, LossTerms]
    alignment: float
    uniformity: tuple[float, float]


def prepare(pair: PairedRows, settings: ReportSettings, watcher: Progress, facts: RowFacts) -> ReportInputs:
    """The quantile, the pass to the entries from t on, and the passes to the sums without the suspected pairs.

    Raises BadInput before the passes where there is too little memory for them.
    """
    settings.check_rows(pair.rows)
    if facts.groups is not None and facts.groups.shape != (pair.rows,):
        raise BadInput(f"groups: expected one id for each of the {pair.rows:,} rows, got shape {facts.groups.shape}")
    clock = Stopwatch(watcher)
    backend = choose_backend(settings.work.device)
    diagonal = pair.diagonal()  # loads the compiled code before free memory is read
    with clock.step("quantile"):
        threshold = find_threshold(pair.grid, settings.graph, settings.seed, backend, watcher.progress)
        expected = forecast_report(pair, threshold, settings, backend, hardest_wanted(settings, pair.rows))
    check_room(pair, expected, settings.work, "the report", "use --rows, on some of the rows")
    with clock.step("hard pairs"):
        found = find(
            pair.grid,
            threshold,
            backend,
            ties=True,
            tile_rows=settings.work.chunk_rows,
            progress=watcher.progress,
            limit=entry_limit(pair, expected, settings.work.max_memory),
        )
        pairs = found.reaching.chosen(suspected(pair.grid, found.reaching, settings.fn_margin))
        listed = pairs_of(pairs.rows, pairs.cols, pair.rows)
        suspects = SuspectPairs(listed.lower, listed.higher, facts.groups)
        above = found.edges()
        graph = adjacency_from_pairs(pair.rows, above.rows, above.cols)
        achieved = 1.0 - len(above) / pair.rows**2
        del found, pairs, above
    with clock.step("all pairs"):
        across = _sums(pair.x, pair.y, settings, suspects, backend, watcher)
        same_side = None
        if any(loss.kind is LossKind.SIMCLR for loss in settings.losses):
            x, y = (_sums(side, side, settings, suspects, backend, watcher)[0] for side in (pair.x, pair.y))
            same_side = x, y
    with clock.step("representation"):
        uniform = uniformity(pair.x, settings.seed), uniformity(pair.y, settings.seed)
        aligned = alignment(pair)
    return ReportInputs(
        pair=pair,
        settings=settings,
        facts=facts,
        threshold=threshold,
        graph=graph,
        suspects=suspects,
        across=across,
        same_side=same_side,
        diagonal=diagonal,
        achieved_quantile=achieved,
        clock=clock,
        terms={
            loss: _own_terms(pair, facts.labels, loss, suspects, diagonal, across)
            for loss in settings.losses
            if loss.has_own_terms
        },
        alignment=aligned,
        uniformity=uniform,
    )


def _sums(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    settings: ReportSettings,
    suspects: SuspectPairs,
    backend: Backend,
    watcher: Progress,
) -> tuple[SideSums, SideSums]:
    return loss_sums(
        x,
        y,
        settings.temperatures,
        backend,
        removed=suspects,
        hardest=hardest_wanted(settings, len(x)),
        tile_rows=settings.work.chunk_rows,
        progress=watcher.progress,
    )


def _own_terms(
    pair: PairedRows,
    labels: RowLabels,
    loss: Loss,
    suspects: SuspectPairs,
    diagonal: NDArray[np.float64],
    across: tuple[SideSums, SideSums],
) -> LossTerms:
    if loss.kind is LossKind.BSC:
        return BscTerms(pair, labels, suspects)
    hardest = np.stack([side.hardest[:, 0] for side in across])
    unsuspected = np.stack([side.hardest_unsuspected for side in across])
    return TripletTerms(pair, suspects, loss.margin, diagonal, hardest, unsuspected)


def hardest_wanted(settings: ReportSettings, rows: int) -> int:
    """How many of its hardest negatives each row keeps: as many as the oracle of any loss and batch size shows it."""
    wanted = [loss.oracle_negatives(rows, size) for loss in settings.losses for size in settings.batch_sizes]
    return max(1, min(max(wanted), rows - 1))


def all_keys(basis: ReportInputs, loss: Loss) -> list[AllKeys]:
    """For each temperature, what all keys of this loss sum to."""
    own = basis.same_side if loss.kind is LossKind.SIMCLR else None
    sides = [merge_sides(basis.across[side], own[side] if own else None) for side in loss.sides]
    return [
        AllKeys(
            # The positive is one of the keys, however the float32 products round.
            np.stack([np.maximum(side.log_sums[number], basis.diagonal / temperature) for side in sides]),
            np.stack([np.maximum(side.masked[number], basis.diagonal / temperature) for side in sides]),
            np.stack([side.hardest for side in sides]),
            basis.diagonal,
            loss.keys_in_all(basis.pair.rows),
            tolerance(float32_error(basis.pair.dim), temperature),
        )
        for number, temperature in enumerate(basis.settings.temperatures)
    ]
