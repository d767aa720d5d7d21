"""From unit rows to mined negatives and the loss with them: the steps of `gcbs mine`, without files."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gcbs_cli.data.pairs import PairedRows, Positives
from gcbs_cli.mining.negatives import Negatives, keys_listed, mine_negatives
from gcbs_cli.planning.memory import MemoryForecast, check_memory, fixed_bytes
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sums import loss_sums
from gcbs_cli.reports.in_batch import log_sum_exp, of_orders, random_orders
from gcbs_cli.reports.schema import ReportPart
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.system.arrays import Floats, Ints
from gcbs_cli.system.progress import Progress, Stopwatch

BYTES_PER_KEY = 160
"""For a negative, found, joined, and laid in a table for the losses; and for a key of the rows that are looked at."""
LEAST_GAP = 1e-6
"""Below this the gap is rounding, and a share of it says nothing."""


class MinedLoss(ReportPart):
    """Mean losses over rows and trials, in nats: with all keys, of random batches alone, with each row's own negatives,
    and with those of all rows of the batch, as sentence-transformers' MultipleNegativesRankingLoss sees them.
    """

    global_: float
    random: float
    own: float
    shared: float


class MinedGap(ReportPart):
    """L_global − L_train in nats; reductions: 1 − gap / random's, None where there is none to close."""

    random: float
    own: float
    shared: float
    own_reduction: float | None = None
    shared_reduction: float | None = None


class Scores(ReportPart):
    """Mean similarities: of the positive pairs, of the mined negatives (None without any)."""

    positive: float
    negative: float | None = None


class MineReport(ReportPart):
    """One run. `mined`: lines written; `short`: queries with fewer negatives than asked; `skipped`: by reason."""

    n: int
    dim: int
    mined: int
    short: int
    skipped: dict[str, int]
    scores: Scores
    loss: MinedLoss
    gap: MinedGap
    settings: dict[str, Any]
    device: str
    timings: dict[str, float]


@dataclass(frozen=True)
class Mined:
    """The lists, and the figures about them."""

    negatives: Negatives
    report: MineReport


def mine(pair: PairedRows, settings: MineSettings, ids: Ints | None = None, watcher: Progress | None = None) -> Mined:
    """Mine every row's negatives and compute the losses; ids: (N,) rows with the same id are positives of each other.

    Raises BadInput where the settings do not fit the data.
    """
    settings.check_rows(pair.rows)
    clock = Stopwatch(watcher)
    backend = choose_backend(settings.device, settings.chunk_rows)
    positives = Positives(np.arange(pair.rows) if ids is None else ids)
    forecast = _forecast(pair, settings, positives, backend)
    advice = "use fewer --negatives, a smaller --range-max or fewer rows"
    check_memory(forecast, settings, "mining", advice, held=pair.x.nbytes + pair.y.nbytes)
    with clock.step("negatives"):
        found = mine_negatives(pair, positives, settings, backend, clock.watcher.progress)
    with clock.step("losses"):
        loss = mined_losses(pair, found, settings, backend)
    counts = np.bincount(found.query, minlength=pair.rows)
    report = MineReport(
        n=pair.rows,
        dim=pair.dim,
        mined=len(found.query),
        short=int(np.count_nonzero(counts < settings.negatives)),
        skipped=found.skipped,
        scores=Scores(
            positive=float(pair.diagonal().mean()), negative=float(found.score.mean()) if len(found.score) else None
        ),
        loss=loss,
        gap=_gap(loss),
        settings=dict(settings),
        device=backend.name,
        timings=clock.seconds,
    )
    return Mined(found, report)


def mined_losses(pair: PairedRows, negatives: Negatives, settings: MineSettings, backend: Backend) -> MinedLoss:
    """The losses of some random orders with each row's list appended to its batch, x→y.

    Hard Negative (1..l) of GCBS (section 4). A key that a row sees twice counts once, so that no loss exceeds L_global.
    """
    size, temperature = settings.batch_size, settings.temperature
    log_sums = loss_sums(pair.x, pair.y, [temperature], backend)[0][0]
    positive = pair.diagonal() / temperature
    filled = np.arange(settings.negatives) < np.bincount(negatives.query, minlength=pair.rows)[:, None]
    keys, scores = np.zeros(filled.shape, np.int64), np.zeros(filled.shape)
    keys[filled], scores[filled] = negatives.negative, negatives.score

    def trial(order: Ints) -> Floats:
        """(3, N) log sums of random batches alone, with each row's own negatives, with those of the whole batch."""
        sums = np.empty((3, pair.rows))
        for start in range(0, pair.rows, size):
            batch = order[start : start + size]
            new = filled[batch] & ~np.isin(keys[batch], batch)
            seen = np.concatenate([batch, np.unique(keys[batch][new])])
            values = pair.x[batch] @ pair.y[seen].T
            alone = log_sum_exp(values[:, : len(batch)], temperature)
            own = np.logaddexp.reduce(np.where(new, scores[batch], -np.inf) / temperature, axis=1)
            sums[:, batch] = alone, np.logaddexp(alone, own), log_sum_exp(values, temperature)
        return np.minimum(sums, log_sums)  # rounding apart, no part of the keys sums to more than all of them

    seen = np.mean(of_orders(random_orders(pair.rows, settings.seed, settings.trials), trial), axis=0)
    random, own, shared = (seen - positive).mean(axis=1).tolist()
    return MinedLoss(global_=float((log_sums - positive).mean()), random=random, own=own, shared=shared)


def _gap(loss: MinedLoss) -> MinedGap:
    random, own, shared = (loss.global_ - value for value in (loss.random, loss.own, loss.shared))
    own_reduction, shared_reduction = (None if random < LEAST_GAP else 1.0 - gap / random for gap in (own, shared))
    return MinedGap(
        random=random, own=own, shared=shared, own_reduction=own_reduction, shared_reduction=shared_reduction
    )


def _forecast(pair: PairedRows, settings: MineSettings, positives: Positives, backend: Backend) -> MemoryForecast:
    """Memory of the lists, and of the keys of the rows that are looked at together."""
    keys = min(pair.rows, keys_listed(settings.last_rank(positives.most) + positives.most))
    height = backend.tile_rows or backend.tile_shape[0]
    entries = pair.rows * settings.negatives + height * keys
    return MemoryForecast(pair.rows, fixed_bytes(pair.rows, pair.dim, backend), entries, BYTES_PER_KEY)
