"""Of the embeddings themselves: alignment and uniformity (Wang and Isola, ICML 2020), mean similarity of negatives."""

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.system.arrays import Float32s, Floats, Ints

MOST_ROWS = 10_000
SAMPLED_ROWS = 4_096
ROWS_AT_ONCE = 1_024


def alignment(pair: PairedRows) -> float:
    """Mean ‖x_i − y_i‖² over the positive pairs; 0 when every pair coincides."""
    total = 0.0
    for start in range(0, pair.rows, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        total += float(np.square(pair.x[part].astype(np.float64) - pair.y[part]).sum())
    return total / pair.rows


def uniformity(side: Float32s, seed: int) -> float:
    """log mean exp(−2 ‖u_i − u_j‖²) over i ≠ j; of 4,096 rows drawn at random beyond 10,000 rows."""
    if len(side) > MOST_ROWS:
        side = side[np.sort(np.random.default_rng([seed, 0x0F1]).choice(len(side), SAMPLED_ROWS, replace=False))]
    count, total = len(side), 0.0
    for start in range(0, count, ROWS_AT_ONCE):
        powers = side[start : start + ROWS_AT_ONCE] @ side.T
        # ‖u_i − u_j‖² = 2 − 2 u_i·u_j for unit rows, 0 on the diagonal.
        np.minimum(powers, np.float32(1.0), out=powers)
        powers *= np.float32(4.0)
        powers -= np.float32(4.0)
        np.exp(powers, out=powers)
        powers[np.arange(len(powers)), start + np.arange(len(powers))] = 0.0
        total += float(powers.sum(dtype=np.float64))
    return float(np.log(total / (count * (count - 1))))


def mean_negatives(
    pair: PairedRows, perm: Ints, batch_size: int, positives: float, total_y: Floats
) -> tuple[float | None, float]:
    """Mean s_ij, i ≠ j, of the rows of an order and the other keys of their batch, and all other keys.

    positives: the sum of these rows' s_ii; total_y: (d,) the sum of all rows of y. The products of a batch add up to
    the product of the sums of its rows. The first is None where no batch has two rows.
    """
    rest = len(perm) % batch_size
    full = len(perm) - rest

    def totals(side: Float32s) -> Floats:
        step = batch_size * -(-ROWS_AT_ONCE // batch_size)
        parts = (side[perm[start : min(start + step, full)]] for start in range(0, full, step))
        sums = [part.reshape(-1, batch_size, pair.dim).sum(axis=1, dtype=np.float64) for part in parts]
        return np.concatenate([*sums, side[perm[full:]].sum(axis=0, dtype=np.float64, keepdims=True)])

    x, y = totals(pair.x), totals(pair.y)
    pairs = full * (batch_size - 1) + rest * (rest - 1)
    in_all = (float(x.sum(axis=0) @ total_y) - positives) / (len(perm) * (pair.rows - 1))
    return ((float(np.vdot(x, y)) - positives) / pairs if pairs else None), in_all
