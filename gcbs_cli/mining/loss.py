"""What the loss would be with mined negatives: random batches with each row's list appended, x→y.

Hard Negative (1..l) of GCBS (section 4). A key that a row sees twice counts once, so that no loss exceeds L_global.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.mining.negatives import Negatives
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sums import loss_sums
from gcbs_cli.reports.in_batch import log_sum_exp, random_order
from gcbs_cli.reports.schema import ReportPart
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.system.arrays import Floats
from gcbs_cli.system.limits import available_cpus


class MinedLoss(ReportPart):
    """Mean losses over rows and trials, in nats."""

    global_: float
    """With all keys."""
    random: float
    """Of random batches alone."""
    own: float
    """And each row's own negatives."""
    shared: float
    """And the negatives of all rows of the batch, as sentence-transformers' MultipleNegativesRankingLoss sees them."""


def mined_losses(pair: PairedRows, negatives: Negatives, settings: MineSettings, backend: Backend) -> MinedLoss:
    """The losses of `settings.trials` random orders in batches of `settings.batch_size`."""
    from threadpoolctl import threadpool_limits

    size, temperature = settings.batch_size, settings.temperature
    rows = settings.chunk_rows
    log_sums = loss_sums(pair.x, pair.y, [temperature], backend, tile_rows=rows)[0].log_sums[0]
    keys, scores = negatives.table(pair.rows, settings.negatives)
    positive = pair.diagonal() / temperature

    def trial(number: int) -> Floats:
        """(3, N) log sums of random batches alone, with each row's own negatives, with those of the whole batch."""
        order = random_order(pair.rows, settings.seed, number)
        sums = np.empty((3, pair.rows))
        for start in range(0, pair.rows, size):
            batch = order[start : start + size]
            new = (keys[batch] >= 0) & ~np.isin(keys[batch], batch)
            seen = np.concatenate([batch, np.unique(keys[batch][new])])
            values = pair.x[batch] @ pair.y[seen].T
            alone = log_sum_exp(values[:, : len(batch)], temperature)
            own = np.logaddexp.reduce(np.where(new, scores[batch], -np.inf) / temperature, axis=1)
            sums[:, batch] = alone, np.logaddexp(alone, own), log_sum_exp(values, temperature)
        return np.minimum(sums, log_sums)  # rounding apart, no part of the keys sums to more than all of them

    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(available_cpus()) as pool:
        seen = np.mean(list(pool.map(trial, range(settings.trials))), axis=0)
    random, own, shared = (seen - positive).mean(axis=1).tolist()
    return MinedLoss(global_=float((log_sums - positive).mean()), random=random, own=own, shared=shared)
