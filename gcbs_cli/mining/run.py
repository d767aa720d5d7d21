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
    """1 − gap / the gap of random batches, gap = L_global − loss; None where random batches leave none to close."""

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


def mine(pairs: PairedRows, settings: MineSettings, ids: Ints | None = None, progress: Progress | None = None) -> Mined:
    """Mine every row's negatives and compute the losses; ids: (N,) rows with the same id are positives of each other.

    Raises BadInput where the settings do not fit the data.
    """
    settings.check_rows(pairs.rows)
    clock = Stopwatch(progress)
    backend = choose_backend(settings.device, settings.chunk_rows)
    positives = Positives(np.arange(pairs.rows) if ids is None else ids)
    # The lists, and the keys of the rows that are looked at together.
    keys = min(pairs.rows, keys_listed(settings.last_rank(positives.most) + positives.most))
    entries = pairs.rows * settings.negatives + (backend.tile_rows or backend.tile_shape[0]) * keys
    forecast = MemoryForecast(pairs.rows, fixed_bytes(pairs.rows, pairs.dim, backend), entries, BYTES_PER_KEY)
    advice = "use fewer --negatives, a smaller --range-max or fewer rows"
    check_memory(forecast, settings, "mining", advice, held=pairs.x.nbytes + pairs.y.nbytes)
    with clock.step("negatives"):
        negatives = mine_negatives(pairs, positives, settings, backend, clock.watcher.progress)
    with clock.step("losses"):
        loss = mined_losses(pairs, negatives, settings, backend)
    mined = len(negatives.query)
    counts = np.bincount(negatives.query, minlength=pairs.rows)
    report = MineReport(
        n=pairs.rows,
        dim=pairs.dim,
        mined=mined,
        short=int(np.count_nonzero(counts < settings.negatives)),
        skipped=negatives.skipped,
        scores=Scores(
            positive=float(pairs.diagonal().mean()), negative=float(negatives.score.mean()) if mined else None
        ),
        loss=loss,
        gap=_gap(loss),
        settings=dict(settings),
        device=backend.name,
        timings=clock.seconds,
    )
    return Mined(negatives, report)


def mined_losses(pairs: PairedRows, negatives: Negatives, settings: MineSettings, backend: Backend) -> MinedLoss:
    """The losses of some random orders with each row's list appended to its batch, x→y.

    Hard Negative (1..l) of GCBS (section 4). A key that a row sees twice counts once, so that no loss exceeds L_global.
    """
    size, temperature = settings.batch_size, settings.temperature
    log_sums = loss_sums(pairs.x, pairs.y, [temperature], backend)[0][0]
    positive = pairs.diagonal() / temperature
    filled = np.arange(settings.negatives) < np.bincount(negatives.query, minlength=pairs.rows)[:, None]
    keys = np.zeros(filled.shape, np.int64)
    keys[filled] = negatives.negative
    scores = np.zeros(filled.shape)
    scores[filled] = negatives.score

    def trial(order: Ints) -> Floats:
        """(3, N) log sums of random batches alone, with each row's own negatives, with those of the whole batch."""
        sums = np.empty((3, pairs.rows))
        for start in range(0, pairs.rows, size):
            batch = order[start : start + size]
            new = filled[batch] & ~np.isin(keys[batch], batch)
            seen = np.concatenate([batch, np.unique(keys[batch][new])])
            values = pairs.x[batch] @ pairs.y[seen].T
            alone = log_sum_exp(values[:, : len(batch)], temperature)
            own = np.logaddexp.reduce(np.where(new, scores[batch], -np.inf) / temperature, axis=1)
            sums[:, batch] = alone, np.logaddexp(alone, own), log_sum_exp(values, temperature)
        return np.minimum(sums, log_sums)  # rounding apart, no part of the keys sums to more than all of them

    orders = random_orders(pairs.rows, settings.seed, settings.trials)
    means = np.mean(of_orders(orders, trial), axis=0)
    random, own, shared = (means - positive).mean(axis=1).tolist()
    return MinedLoss(global_=float((log_sums - positive).mean()), random=random, own=own, shared=shared)


def _gap(loss: MinedLoss) -> MinedGap:
    random = loss.global_ - loss.random
    if random < LEAST_GAP:
        return MinedGap()
    own = 1.0 - (loss.global_ - loss.own) / random
    shared = 1.0 - (loss.global_ - loss.shared) / random
    return MinedGap(own_reduction=own, shared_reduction=shared)
