"""Rows to parts: centres learnt from a sample, each row to the nearest with room, and sizes that are whole batches.

Balanced spherical k-means: Lloyd's algorithm with unit centres (Dhillon and Modha, 2001), in which a cluster takes no
more rows than its share. Everything is decided in whole numbers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.reading import PairStream, mean_rows
from gcbs_cli.orders.k_means import k_means, products, whole
from gcbs_cli.system.arrays import Float32s, Int32s, Ints, grouped
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.randomness import Stream

SAMPLE_ROWS = 1 << 16
"""Rows from which centres are learnt."""
PARTS_LISTED = 4
"""Nearest parts that are listed for each row: 12 bytes a row."""
PartNumbers = NDArray[np.int16]
Partition = list[Ints]
"""The rows of each part, in rising order."""


def learn_centres(stream: PairStream, parts: int, seed: int) -> Float32s:
    """(P, d) centres, whole, of the unit means of random pairs; one pass that also checks and fingerprints all rows."""
    size = min(stream.rows, SAMPLE_ROWS)
    chosen = np.sort(Stream.CENTRES_SAMPLE.generator(seed).choice(stream.rows, size, replace=False))
    rows = whole(mean_rows(*stream.read_rows(chosen)))
    sizes = np.full(parts, -(-size // parts))

    def join(rows: Float32s, centres: Float32s) -> Ints:
        return _join(*_nearest(products(rows, centres)), centres, sizes)

    return k_means(rows, parts, Stream.CENTRES.generator(seed), join)[1]


def make_partition(stream: PairStream, centres: Float32s, batch_size: int) -> Partition:
    """Every row in the nearest part that has room, from one pass.

    Parts have as many batches, or one more; the rows left over are in the last.
    """
    count = len(centres)
    nearest = np.empty((stream.rows, min(PARTS_LISTED, count)), np.int16)
    losses = np.empty(stream.rows, np.int32)
    for start, x, y in stream.blocks():
        stop = start + len(x)
        nearest[start:stop], losses[start:stop] = _nearest(products(whole(mean_rows(x, y)), centres))
    batches, rest = divmod(stream.rows, batch_size)
    sizes = batch_size * (batches // count + (np.arange(count) < batches % count))
    sizes[-1] += rest
    members, starts = grouped(_join(nearest, losses, centres, sizes), count)
    return np.split(members, starts[1:-1])


def _nearest(similar: Int32s) -> tuple[PartNumbers, Int32s]:
    """(n, m) the parts that each row is most similar to, best first, and (n,) what the second is less than the first.

    similar: (n, P), which is overwritten.
    """
    rows, count = similar.shape
    lines = np.arange(rows)
    parts = np.empty((rows, min(PARTS_LISTED, count)), np.int16)
    scores = np.empty(parts.shape, np.int32)
    for place in range(parts.shape[1]):
        parts[:, place] = np.argmax(similar, axis=1)
        scores[:, place] = similar[lines, parts[:, place]]
        similar[lines, parts[:, place]] = np.iinfo(np.int32).min
    return parts, scores[:, 0] - scores[:, min(1, count - 1)]


def _join(nearest: PartNumbers, losses: Int32s, centres: Float32s, sizes: Ints) -> Ints:
    """(n,) a part for each row: those that lose most choose first, among the parts that still have room."""
    neighbours = np.argsort(-products(centres, centres), axis=1, kind="stable")
    return _choose(np.argsort(-losses, kind="stable"), nearest, neighbours, sizes.copy())


@compiled
def _choose(order: Ints, nearest: PartNumbers, neighbours: Ints, room: Ints) -> Ints:
    labels = np.empty(len(order), np.int64)
    for row in order:
        part = _first_with_room(nearest[row], room)
        if part < 0:
            part = _first_with_room(neighbours[nearest[row, 0]], room)
        room[part] -= 1
        labels[row] = part
    return labels


@compiled
def _first_with_room(parts: NDArray[np.integer[Any]], room: Ints) -> int:
    for part in parts:
        if room[part] > 0:
            return part
    return -1
