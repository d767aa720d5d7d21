"""The loss where each coordinate is normalised over the rows of a batch, from rows as the data has them.

Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022), section 3.5: "by
the batch dimension", with L2 norms or in a min–max scale. The authors' code divides by the range alone. The loss over
all rows normalises over all of them, so that the gap to it can be negative.
"""

from collections.abc import Sequence

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sums import loss_sums
from gcbs_cli.reports.in_batch import log_sum_exp
from gcbs_cli.system.arrays import Float32s, Floats, Ints


def normalised(rows: Float32s, how: str) -> Float32s:
    """The rows (n, d) of a batch, each coordinate divided by its norm or range over them; constant ones count as 0.

    how: l2, min-max or range.
    """
    least = rows.min(axis=0)
    size = np.linalg.norm(rows.astype(np.float64), axis=0) if how == "l2" else (rows.max(axis=0) - least)
    shifted = rows - least if how == "min-max" else rows
    return np.divide(shifted, size, out=np.zeros_like(rows), where=size > 0, dtype=np.float32, casting="same_kind")


class CoordinateLosses:
    """The losses at some temperatures; both directions, by input row. in_all: (T, 2, N) with all rows as one batch."""

    def __init__(self, raw: PairedRows, temperatures: Sequence[float], how: str, backend: Backend) -> None:
        self._raw, self._temperatures, self._how = raw, temperatures, how
        sides = [normalised(side, how) for side in (raw.x, raw.y)]
        # The sums expect products of at most 1: rows are scaled to that, and temperatures with them.
        scales = [float(np.sqrt(np.einsum("ij,ij->i", side, side).max())) or 1.0 for side in sides]
        x, y = (side / np.float32(scale) for side, scale in zip(sides, scales, strict=True))
        scaled = np.array(temperatures) / np.prod(scales)
        own = np.einsum("ij,ij->i", x, y, dtype=np.float64) / scaled[:, None]
        self.in_all = np.stack([side.log_sums - own for side in loss_sums(x, y, scaled.tolist(), backend)], axis=1)

    def in_batches(self, perm: Ints, batch_size: int) -> Floats:
        """(T, 2, N) in the batches of an order; 0 for rows that it leaves out."""
        losses = np.zeros_like(self.in_all)
        for start in range(0, len(perm), batch_size):
            rows = perm[start : start + batch_size]
            x, y = (normalised(side[rows], self._how) for side in (self._raw.x, self._raw.y))
            products = x @ y.T
            for number, temperature in enumerate(self._temperatures):
                sums = [log_sum_exp(side, temperature) for side in (products, products.T)]
                losses[number][:, rows] = np.stack(sums) - products.diagonal() / temperature
        return losses
