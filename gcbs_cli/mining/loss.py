"""What the loss would be with mined negatives: random batches with each row's list appended, x→y.

Hard Negative (1..l) of GCBS (section 4). A key that a row sees twice counts once, so that no loss exceeds L_global.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.mining.negatives import Negatives
from gcbs_cli.mining.schema import MinedLoss
from gcbs_cli.reports.in_batch import log_sum_exp
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.system.limits import available_cpus


def mined_losses(pair: PairedRows, negatives: Negatives, settings: MineSettings) -> MinedLoss:
    """The losses of `settings.loss.trials` random orders in batches of `settings.loss.batch_size`."""
    from threadpoolctl import threadpool_limits

    keys, scores = negatives.table(pair.rows, settings.choice.negatives)
    positive = pair.diagonal() / settings.loss.temperature

    def trial(number: int) -> NDArray[np.float64]:
        order = np.random.default_rng([settings.seed, 0x7121A1, number]).permutation(pair.rows)
        sums = np.empty((3, pair.rows))
        for start in range(0, pair.rows, settings.loss.batch_size):
            batch = order[start : start + settings.loss.batch_size]
            sums[:, batch] = _batch(pair, batch, keys[batch], scores[batch], settings.loss.temperature)
        # Rounding apart, no part of the keys sums to more than all of them.
        return np.minimum(sums, negatives.log_sums)

    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(available_cpus()) as pool:
        seen = np.mean(list(pool.map(trial, range(settings.loss.trials))), axis=0)
    random, own, shared = (seen - positive).mean(axis=1).tolist()
    return MinedLoss(global_=float((negatives.log_sums - positive).mean()), random=random, own=own, shared=shared)


def _batch(
    pair: PairedRows,
    batch: NDArray[np.int64],
    keys: NDArray[np.int64],
    scores: NDArray[np.float64],
    temperature: float,
) -> NDArray[np.float64]:
    """(3, n) log sums of the batch alone, with own negatives, with those of the whole batch."""
    queries = pair.x[batch]
    alone = log_sum_exp(queries @ pair.y[batch].T, temperature)
    more = np.setdiff1d(keys[keys >= 0], batch)
    new = (keys >= 0) & ~np.isin(keys, batch)
    own = np.logaddexp(alone, _log_sum(np.where(new, scores, -np.inf), temperature))
    if len(more) == 0:
        return np.stack([alone, own, alone])
    return np.stack([alone, own, np.logaddexp(alone, log_sum_exp(queries @ pair.y[more].T, temperature))])


def _log_sum(scores: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """log Σ exp of each line, −inf for a line of −inf."""
    return np.logaddexp.reduce(scores / temperature, axis=1)
