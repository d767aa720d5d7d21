"""What two rows are worth to each other inside a batch: the numbers that the refinement adds up."""

from itertools import permutations
from typing import NamedTuple

import numpy as np

from gcbs_cli.data.grid import Numbers
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import WeightedGraph
from gcbs_cli.system.arrays import Float32s, Floats, Int32s, Ints
from gcbs_cli.system.randomness import Stream
from gcbs_cli.system.threads import in_parts

BACKGROUND_KEYS = 512
ROWS_AT_ONCE = 2048
RESOLUTION = 2.0**-20
"""Nats, or shares: the step to which the results of exponentials and logarithms are rounded before they decide."""
LARGEST_EXPONENT = 60.0
"""Keeps shares within float32."""


class SwapGains(NamedTuple):
    """For every row its candidates, as a CSR: `indptr` (N + 1,) int64, `indices` (E,) int32.

    `shares` (E, 4) float32, for the entry (i, j): by how much j raises the sum of row i in a batch, x→y and y→x, and i
    that of j, each as a share of what that row's sum is in an average random batch, the positive included. `penalties`
    (E,) float32: what the pair costs inside a batch, in nats.
    """

    indptr: Ints
    indices: Int32s
    shares: Float32s
    penalties: Float32s

    def worth(self) -> Float32s:
        """(E,) the worth of each pair by itself, in nats: Σ log(1 + share) − penalty, the same both ways."""
        logs = _settled(np.log1p(self.shares, dtype=np.float64).sum(axis=1))
        return (logs - self.penalties).astype(np.float32)

    def linear(self) -> "SwapGains":
        """Gains by which each pair counts by itself: its worth is a negative penalty, and it adds to no sum."""
        return self._replace(shares=np.zeros_like(self.shares), penalties=-self.worth())


def swap_gains(
    weighted: WeightedGraph, pairs: PairedRows, temperature: float, batch_size: int, background: Floats
) -> SwapGains:
    """The gains of a weighted graph; pairs that are better kept apart gain nothing.

    background: (2, N) the logarithm of what another row adds to a row's sum on average, x→y and y→x.
    """
    graph = weighted.graph
    i, j = graph.row_of_entry(), graph.indices
    x, y = background
    # A row's sum in a random batch: its positive and k − 1 times what another row adds on average.
    x_sum, y_sum = np.logaddexp(pairs.diagonal() / temperature, np.log(batch_size - 1) + background)
    forward = weighted.forward / temperature
    backward = weighted.backward / temperature
    shares = np.empty((len(i), 4), np.float32)
    shares[:, 0] = _share(forward, x[i], x_sum[i])
    shares[:, 1] = _share(backward, y[i], y_sum[i])
    shares[:, 2] = _share(backward, x[j], x_sum[j])
    shares[:, 3] = _share(forward, y[j], y_sum[j])
    shares[weighted.apart] = 0.0
    return SwapGains(graph.indptr, graph.indices, shares, weighted.costs)


def _share(exponent: Floats, background: Floats, total: Floats) -> Float32s:
    """(E,) (e^exponent − e^background) / e^total, at least 0 and within float32."""
    hard = np.exp(np.minimum(exponent - total, LARGEST_EXPONENT))
    return _settled(np.maximum(hard - np.exp(background - total), 0.0)).astype(np.float32)


def log_background(pairs: PairedRows, temperature: float, seed: int) -> Floats:
    """(2, N) log mean exp(s / temperature) of each row of x, and of y, over a seeded sample of keys, from the grid."""
    grid = pairs.grid
    size = min(pairs.rows, BACKGROUND_KEYS)
    sample = np.sort(Stream.BACKGROUND_KEYS.generator(seed).choice(pairs.rows, size, replace=False))
    unit = 1.0 / (temperature * grid.scale**2)
    means = [
        _log_means(queries, keys[sample], offsets[sample], unit) + (own + float(grid.constant)) * unit
        for (queries, own), (keys, offsets) in permutations([(grid.x, grid.x_offsets), (grid.y, grid.y_offsets)])
    ]
    return _settled(np.stack(means))


def _log_means(queries: Numbers, keys: Numbers, offsets: Int32s, unit: float) -> Floats:
    """(N,) log mean exp(unit · (product + offset)) over the keys, whose products are exact whole numbers."""
    from threadpoolctl import threadpool_limits

    logs = np.empty(len(queries))
    columns = keys.astype(np.float32).T

    def fill(start: int, stop: int) -> None:
        numbers = queries[start:stop].astype(np.float32) @ columns + offsets.astype(np.float32)
        largest = numbers.max(axis=1, keepdims=True).astype(np.float64)
        powers = np.exp((numbers - largest) * unit)
        logs[start:stop] = np.log(powers.mean(axis=1)) + largest[:, 0] * unit

    with threadpool_limits(limits=1, user_api="blas"):  # the parts have a thread each already
        in_parts(len(logs), ROWS_AT_ONCE, fill)
    return logs


def _settled(values: Floats) -> Floats:
    """Round so coarsely that the last bits, in which the functions of two machines differ, decide nothing."""
    return np.rint(values / RESOLUTION) * RESOLUTION
