"""What two rows add to each other's learnable share inside a batch: the numbers that the refinement adds up."""

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
ENTRIES_AT_ONCE = 1 << 15
RESOLUTION = 2.0**-20
"""Nats, or shares: the step to which the results of exponentials and logarithms are rounded before they decide."""
DUPLICATE_SHARE = 100.0
"""What a near duplicate takes from its row at least: more than any other row gives."""
LARGEST_EXPONENT = 16.0
"""A share of e¹⁶ leaves nothing to others; up to here, sums of shares in float64 are exact."""


class Background(NamedTuple):
    """What another row adds to a row's sum on average, (2, N) each, x→y and y→x.

    log_means: log mean exp(s / temperature); learnable: the share of this mean that keys less similar than the row's
    positive have.
    """

    log_means: Floats
    learnable: Floats


class SwapGains(NamedTuple):
    """For every row its candidates, as a CSR: `indptr` (N + 1,) int64, `indices` (E,) int32.

    `shares` (E, 4) float32, for the entry (i, j): what j adds to the sum of row i in a batch, x→y and y→x, and i to
    that of j, each as a share of what that row's sum is in an average random batch, the positive included. A share is
    negative where the pair is too hard for that row.
    `base` (N, 2) float64: the learnable share of an average random batch, x→y and y→x.
    """

    indptr: Ints
    indices: Int32s
    shares: Float32s
    base: Floats

    def worth(self) -> Float32s:
        """(E,) what each pair by itself adds to the learnable shares of its two rows, the same both ways."""
        rows = np.repeat(np.arange(len(self.base)), np.diff(self.indptr))
        base = np.hstack([self.base[rows], self.base[self.indices]])
        changes = (base + np.maximum(self.shares, 0.0)) / (1.0 + np.abs(self.shares, dtype=np.float64)) - base
        return _settled(changes.sum(axis=1)).astype(np.float32)


def swap_gains(
    weighted: WeightedGraph,
    pairs: PairedRows,
    temperature: float,
    batch_size: int,
    background: Background,
    margin: float = 1.0,
) -> SwapGains:
    """The gains of a weighted graph, for batches of a size at a temperature.

    margin: a pair is too hard for a row from this fraction of its positive on.
    """
    graph = weighted.graph
    rows = graph.row_of_entry()
    neighbours = graph.indices
    positive = pairs.diagonal()
    bound = margin * positive
    # A row's sum in a random batch: its positive and k − 1 times what another row adds on average.
    log_others = np.log(batch_size - 1) + background.log_means
    log_sums = np.logaddexp(positive / temperature, log_others)
    base = _settled(np.exp(log_others - log_sums) * background.learnable)
    shares = np.empty((len(rows), 4), np.float32)

    def fill(start: int, stop: int) -> None:
        part = slice(start, stop)
        forward, backward = weighted.forward[part], weighted.backward[part]
        i, j = rows[part], neighbours[part]
        cases = [(0, i, forward), (1, i, backward), (0, j, backward), (1, j, forward)]
        for column, (side, row, similarity) in enumerate(cases):
            share = _share(similarity / temperature, background.log_means[side][row], log_sums[side][row])
            shares[part, column] = np.where(similarity < bound[row], share, -share)

    in_parts(len(rows), ENTRIES_AT_ONCE, fill)
    shares[weighted.alike] = -np.maximum(np.abs(shares[weighted.alike]), DUPLICATE_SHARE)
    return SwapGains(graph.indptr, graph.indices, shares, base.T.copy())


def _share(exponent: Floats, background: Floats, total: Floats) -> Floats:
    """(E,) (e^exponent − e^background) / e^total, at least 0."""
    pair = np.exp(np.minimum(exponent - total, LARGEST_EXPONENT))
    return _settled(np.maximum(pair - np.exp(background - total), 0.0))


def sample_background(pairs: PairedRows, temperature: float, seed: int) -> Background:
    """The background of every row of x, and of y, over a seeded sample of keys, from the grid."""
    grid = pairs.grid
    size = min(pairs.rows, BACKGROUND_KEYS)
    sample = np.sort(Stream.BACKGROUND_KEYS.generator(seed).choice(pairs.rows, size, replace=False))
    unit = 1.0 / (temperature * grid.scale**2)
    log_means = np.empty((2, pairs.rows))
    learnable = np.empty((2, pairs.rows))
    sides = permutations([(grid.x, grid.x_offsets), (grid.y, grid.y_offsets)])
    for side, ((queries, own), (keys, offsets)) in enumerate(sides):
        log_means[side], learnable[side] = _means(queries, keys, offsets, sample, unit)
        # In float64: with rows that are nearly alike, the constant and the offsets pass int32.
        log_means[side] += (own + float(grid.constant)) * unit
    return Background(_settled(log_means), _settled(learnable))


def _means(queries: Numbers, keys: Numbers, offsets: Int32s, sample: Ints, unit: float) -> tuple[Floats, Floats]:
    """(N,) log mean exp(unit · (product + offset)) over the sampled keys, and the share of it below the positive's.

    Products and offsets are whole numbers that float32 holds exactly.
    """
    from threadpoolctl import threadpool_limits

    logs = np.empty(len(queries))
    learnable = np.empty(len(queries))
    columns = keys[sample].astype(np.float32).T
    column_offsets = offsets[sample].astype(np.float32)

    def fill(start: int, stop: int) -> None:
        rows = queries[start:stop].astype(np.float32)
        positive = (rows * keys[start:stop]).sum(axis=1) + offsets[start:stop].astype(np.float32)
        numbers = rows @ columns + column_offsets
        largest = numbers.max(axis=1, keepdims=True).astype(np.float64)
        powers = np.exp((numbers - largest) * unit)
        means = powers.mean(axis=1)
        logs[start:stop] = np.log(means) + largest[:, 0] * unit
        learnable[start:stop] = np.where(numbers < positive[:, None], powers, 0.0).mean(axis=1) / means

    with threadpool_limits(limits=1, user_api="blas"):  # the parts have a thread each already
        in_parts(len(logs), ROWS_AT_ONCE, fill)
    return logs, learnable


def _settled(values: Floats) -> Floats:
    """Round so coarsely that the last bits, in which the functions of two machines differ, decide nothing."""
    return np.rint(values / RESOLUTION) * RESOLUTION
