"""Rows to parts: centres learnt from a sample, each row to its nearest, and sizes that are whole batches.

Balanced spherical k-means: Lloyd's algorithm with unit centres (Dhillon and Modha, 2001). A row joins the centre with
the largest product less price; prices rise where too many rows come, as in the auction algorithm (Bertsekas, 1979), so
that parts come out nearly equal before any row has to be moved. Everything is decided in whole numbers.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.reading import PairStream, mean_rows
from gcbs_cli.graph.adjacency import adjacency_from_pairs, edges_of_lists
from gcbs_cli.orders.cuthill_mckee import plan_cm
from gcbs_cli.orders.k_means import UNIT, k_means, products, whole
from gcbs_cli.system.arrays import Float32s, Int32s, Ints, grouped, ragged
from gcbs_cli.system.randomness import Stream

SAMPLE_ROWS = 1 << 16
"""Rows from which centres are learnt."""
PRICE_ROUNDS = 5
"""In each round of Lloyd's algorithm; prices carry over."""
LAST_PRICE_ROUNDS = 60
FIRST_STEP = UNIT // 32
"""What the price of a part twice as full as allowed rises by in the first round; less from round to round."""
STEP_SHRINKS = 0.95
SLACK = 0.1
"""A part may have a tenth more rows than the mean."""
NEIGHBOURING_PARTS = 4
PARTS_LISTED = 4
"""Nearest parts that are listed for each row: 24 bytes a row."""
NO_OFFER = np.int64(-1 << 40)
"""Less than any score."""


@dataclass(frozen=True)
class Centres:
    """P centres in the order of the parts: `values` (P, d) whole numbers in float32, `prices` (P,) int32."""

    values: Float32s
    prices: Int32s


@dataclass(frozen=True)
class Partition:
    """Which rows make which part: part p is `members[starts[p]:starts[p + 1]]`, rows in rising order.

    members: (N,) int64; starts: (P + 1,) int64; moved: rows that are not in their best part, so that sizes fit.
    """

    members: Ints
    starts: Ints
    moved: int

    @property
    def sizes(self) -> Ints:
        """(P,) rows of each part."""
        return np.diff(self.starts)

    def rows_of(self, part: int) -> Ints:
        """The rows of a part, rising."""
        return self.members[self.starts[part] : self.starts[part + 1]]


def sample_means(stream: PairStream, seed: int) -> Float32s:
    """(S, d) the unit means of random pairs, from one pass that also checks and fingerprints all rows."""
    size = min(stream.rows, SAMPLE_ROWS)
    chosen = np.sort(Stream.CENTRES_SAMPLE.generator(seed).choice(stream.rows, size, replace=False))
    return mean_rows(*stream.read_rows(chosen))


def learn_centres(means: Float32s, parts: int, seed: int) -> Centres:
    """Centres of `parts` parts from a sample of unit means (S, d), S >= parts, in the order in which parts are planned.

    The order is reverse Cuthill–McKee over each centre's nearest.
    """
    rows = whole(means)
    prices = np.zeros(parts, np.int32)

    def join(rows: Float32s, centres: Float32s) -> Ints:
        nonlocal prices
        similar = products(rows, centres)
        prices = _balancing_prices(similar, prices, PRICE_ROUNDS)
        return np.argmax(similar - prices, axis=1)

    _, values = k_means(rows, parts, Stream.CENTRES.generator(seed), join)
    prices = _balancing_prices(products(rows, values), prices, LAST_PRICE_ROUNDS)
    order = _order_of_parts(values)
    return Centres(values[order], prices[order])


def _order_of_parts(centres: Float32s) -> Ints:
    """(P,) reverse Cuthill–McKee over the graph of each centre's four nearest, itself among them."""
    parts = len(centres)
    between = products(centres, centres)
    np.fill_diagonal(between, np.iinfo(np.int32).max)
    nearest = np.argsort(-between, axis=1, kind="stable")[:, : min(NEIGHBOURING_PARTS, parts - 1)]
    return plan_cm(adjacency_from_pairs(parts, *edges_of_lists(nearest)))[::-1]


def _balancing_prices(similar: Int32s, prices: Int32s, rounds: int) -> Int32s:
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


def make_partition(stream: PairStream, centres: Centres, batch_size: int) -> Partition:
    """Every row in the part that it scores best with, but for those that must move so that parts are whole batches.

    Parts with most rows too many go first. Of their rows, those that lose least move first, to the best part with room
    among those listed for them, else to the part with room whose centre is nearest.
    """
    best, scores = _best_parts(stream, centres)
    parts = len(centres.values)
    labels = best[:, 0].copy()
    counts = np.bincount(labels, minlength=parts)
    room = part_sizes(counts, batch_size) - counts
    overfull = np.argsort(room, kind="stable")[: np.count_nonzero(room < 0)]
    moved = -int(room[overfull].sum())
    for part in overfull:
        rows = np.flatnonzero(labels == part)
        while room[part] < 0:
            offers = np.where(room[best[rows]] > 0, scores[rows], NO_OFFER)
            offer = offers.max(axis=1)
            target = best[rows, offers.argmax(axis=1)]
            movable = int(np.count_nonzero(offer > NO_OFFER))
            if movable == 0:  # none of the parts that these rows list has room
                between = products(centres.values[[part]], centres.values)[0]
                target[:] = np.argmax(np.where(room > 0, between, NO_OFFER))
                offer[:] = 0
                movable = len(rows)
            least_loss = np.argsort(scores[rows, 0] - offer, kind="stable")[: min(-room[part], movable)]
            # A target takes no more than it has room for, of those that lose least.
            places, starts = grouped(target[least_loss], parts)
            targets, within = ragged(np.diff(starts))
            moving = least_loss[places[within < room[targets]]]
            labels[rows[moving]] = target[moving]
            room -= np.bincount(target[moving], minlength=parts)
            room[part] += len(moving)
            rows = np.delete(rows, moving)
    return Partition(*grouped(labels, parts), moved)


def _best_parts(stream: PairStream, centres: Centres) -> tuple[NDArray[np.int16], Int32s]:
    """(N, m) the parts that each row scores best with, best first and of equal ones the first, and the scores: products
    less prices. From one pass.
    """
    count = min(PARTS_LISTED, len(centres.values))
    parts = np.empty((stream.rows, count), np.int16)
    scores = np.empty((stream.rows, count), np.int32)
    for start, x, y in stream.blocks():
        block = products(whole(mean_rows(x, y)), centres.values) - centres.prices
        lines = np.arange(len(block))
        for place in range(count):
            best = np.argmax(block, axis=1)
            parts[start + lines, place] = best
            scores[start + lines, place] = block[lines, best]
            block[lines, best] = np.iinfo(np.int32).min
    return parts, scores


def part_sizes(counts: Ints, batch_size: int) -> Ints:
    """(P,) rows of each part: whole batches, those left over in the last part; at least a batch, at most a tenth more
    than the mean, and otherwise near to `counts`, the rows that would come by themselves.
    """
    rows, parts = int(counts.sum()), len(counts)
    full = rows // batch_size
    most = max(-(-full // parts), int(full * (1.0 + SLACK) / parts))
    batches = np.clip(counts // batch_size, 1, most)
    while (left := full - int(batches.sum())) != 0:
        change = 1 if left > 0 else -1
        flexible = np.flatnonzero(batches < most if left > 0 else batches > 1)
        rest = change * (counts - batches * batch_size)[flexible]
        batches[flexible[np.argsort(-rest, kind="stable")[: abs(left)]]] += change
    sizes: Ints = batches * batch_size
    sizes[-1] += rows - full * batch_size
    return sizes
