"""Balanced spherical k-means on a sample: the centres of the parts, and the price of each.

Lloyd's algorithm with unit centres (Dhillon and Modha, 2001). A row joins the centre with the largest product less
price; prices rise where too many rows come, as in the auction algorithm (Bertsekas, 1979), so that parts come out
nearly equal before any row has to be moved. Everything is decided in whole numbers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.normalise import unit_rows_into
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.orders.cuthill_mckee import plan_rcm
from gcbs_cli.planning.parts.streaming import PairStream, mean_rows
from gcbs_cli.planning.parts.whole_numbers import UNIT, products, whole

SAMPLE_ROWS = 1 << 16
"""Rows from which centres are learnt."""
ROUNDS = 20
PRICE_ROUNDS = 5
"""In each round of Lloyd's algorithm; prices carry over."""
LAST_PRICE_ROUNDS = 60
FIRST_STEP = UNIT // 32
"""What the price of a part twice as full as allowed rises by in the first round; less from round to round."""
STEP_SHRINKS = 0.95
SLACK = 0.1
"""A part may have a tenth more rows than the mean."""
NEIGHBOURING_PARTS = 4


@dataclass(frozen=True)
class Centres:
    """P centres in the order of the parts: `values` (P, d) whole numbers in float32, `prices` (P,) int32."""

    values: NDArray[np.float32]
    prices: NDArray[np.int32]

    def scores(self, means: NDArray[np.float32]) -> NDArray[np.int32]:
        """(n, P) product less price of unit rows."""
        return products(whole(means), self.values) - self.prices


def learn_centres(means: NDArray[np.float32], parts: int, seed: int) -> Centres:
    """Centres of `parts` parts from a sample of unit means (S, d), S >= parts, in the order in which parts are planned.

    The order is reverse Cuthill–McKee over each centre's nearest.
    """
    rows = whole(means)
    generator = np.random.default_rng([seed, 0x9A47])
    values = rows[np.sort(generator.choice(len(rows), parts, replace=False))]
    prices, found = np.zeros(parts, np.int32), np.full(len(rows), -1)
    for _ in range(ROUNDS):
        before = found
        similar = products(rows, values)
        prices = _balancing_prices(similar, prices, PRICE_ROUNDS)
        found = np.argmax(similar - prices, axis=1)
        if np.count_nonzero(found != before) <= len(rows) // 1000:
            break
        values = _means_of(rows, found, values)
    prices = _balancing_prices(products(rows, values), prices, LAST_PRICE_ROUNDS)
    order = order_of_parts(values)
    return Centres(values[order], prices[order])


def sample_means(stream: PairStream, seed: int) -> NDArray[np.float32]:
    """(S, d) the unit means of random pairs, from one pass that also checks and fingerprints all rows."""
    size = min(stream.rows, SAMPLE_ROWS)
    chosen = np.sort(np.random.default_rng([seed, 0x9A48]).choice(stream.rows, size, replace=False))
    means = np.empty((size, stream.dim), np.float32)
    for start, x, y in stream.blocks():
        first, stop = np.searchsorted(chosen, [start, start + len(x)])
        inside = chosen[first:stop] - start
        means[first:stop] = mean_rows(x[inside], y[inside])
    return means


def order_of_parts(centres: NDArray[np.float32]) -> NDArray[np.int64]:
    """(P,) reverse Cuthill–McKee over the graph of each centre's four nearest."""
    parts = len(centres)
    near = min(NEIGHBOURING_PARTS, parts - 1)
    if near == 0:
        return np.arange(parts)
    between = products(centres, centres)
    np.fill_diagonal(between, np.iinfo(np.int32).min)
    nearest = np.argsort(-between, axis=1, kind="stable")[:, :near]
    rows = np.repeat(np.arange(parts, dtype=np.int32), near)
    return plan_rcm(adjacency_from_pairs(parts, rows, nearest.reshape(-1).astype(np.int32)))


def _balancing_prices(similar: NDArray[np.int32], prices: NDArray[np.int32], rounds: int) -> NDArray[np.int32]:
    """(P,) prices under which no part has more than its share and a tenth, as far as rounds reach."""
    rows, parts = similar.shape
    most = rows * (1.0 + SLACK) / parts
    step = float(FIRST_STEP)
    for _ in range(rounds):
        counts = np.bincount(np.argmax(similar - prices, axis=1), minlength=parts)
        if counts.max() <= most:
            break
        excess = np.clip((counts - most) / most, -1.0, 1.0)
        raised = prices + np.rint(step * excess).astype(np.int32)
        prices = np.clip(raised - raised.min(), 0, UNIT).astype(np.int32)
        step *= STEP_SHRINKS
    return prices


def _means_of(rows: NDArray[np.float32], found: NDArray[np.int64], before: NDArray[np.float32]) -> NDArray[np.float32]:
    """Whole unit means of the rows of each part; a centre without rows stays. Sums of whole numbers are exact."""
    from scipy.sparse import csr_array

    places = np.arange(len(rows))
    members = csr_array((np.ones(len(rows), np.float64), (found, places)), shape=(len(before), len(rows)))
    sums = np.asarray(members @ rows, np.float64)
    means = np.empty(before.shape, np.float32)
    empty = unit_rows_into(sums, "float64", means, normalize=True).zero
    means = whole(means)
    means[empty] = before[empty]
    return means
