"""Rows that must never share a batch: whether that can be done, and a plan made so with few changes."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders.dealing_apart import deal_apart
from gcbs_cli.system.arrays import equal_rows
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.errors import BadInput

NO_LABELS = np.empty((0, 0), np.int64)
LOOKS = 1 << 25
"""Batches that swaps look at before rows with one or two kinds of labels are dealt anew instead."""


def duplicate_labels(side: NDArray[np.float32]) -> NDArray[np.int64]:
    """(N,) the same label for rows of equal content, −1 for rows that are alone; equal after scaling to unit length."""
    numbers = equal_rows(side)[1]
    return np.where(np.bincount(numbers)[numbers] > 1, numbers, -1)


def labels_of(pair: PairedRows, groups: NDArray[np.int64] | None, *, no_duplicates: bool) -> NDArray[np.int64]:
    """(G, N) int64: rows with the same label >= 0 on one line never share a batch."""
    lines = [] if groups is None else [np.asarray(groups, np.int64)]
    if no_duplicates:
        lines += [duplicate_labels(pair.x), duplicate_labels(pair.y)]
    lines = [line for line in lines if (line >= 0).any()]
    return np.stack(lines) if lines else NO_LABELS


def check_possible(labels: NDArray[np.int64], rows: int, batch_size: int, option: str) -> None:
    """Raises BadInput when the rows of one label cannot all be in different batches.

    Where no label has more rows than there are batches, Gale's (1957) and Ryser's (1957) condition is that the labels
    with a row for every batch fit into the last one, which may be short.
    """
    batches = -(-rows // batch_size)
    for line in labels:
        _, counts = np.unique(line[line >= 0], return_counts=True)
        if counts.max(initial=0) > batches:
            raise BadInput(
                f"{option}: one group has {counts.max():,} rows, and there are {batches:,} batches of {batch_size}: "
                f"some would have to share one; use a smaller --batch-size or split the group"
            )
        if np.count_nonzero(counts == batches) > rows - batch_size * (batches - 1):
            raise BadInput(f"{option}: the groups are too large for batches of {batch_size} in which all rows differ")


def keep_apart(perm: NDArray[np.int64], labels: NDArray[np.int64], batch_size: int, seed: int) -> NDArray[np.int64]:
    """The order with as few swaps as found so that no batch holds two rows of one label.

    Each row that shares a label in its batch changes places with the first row, from a random place on, that makes no
    conflict there or here. Where swaps find no way and there are at most two kinds of labels, all rows are dealt anew,
    which finds a way if there is one. Raises BadInput where none is found.
    """
    if labels.size == 0:
        return perm
    starts = np.random.default_rng([seed, 0xA9A27]).integers(len(perm), size=len(perm))
    repaired = perm.copy()
    reach = len(perm)
    if len(labels) <= 2:
        reach = min(reach, batch_size * max(1, LOOKS // (1 + conflicts(perm, labels, batch_size))))
    left = int(_repair(repaired, labels, batch_size, starts, reach))
    if left and len(labels) <= 2:
        dealt = deal_apart(perm, labels, batch_size)
        repaired, left = (repaired, left) if dealt is None else (dealt, 0)
    if left:
        raise BadInput(f"--groups, --no-duplicates: {left:,} rows could not be kept out of a batch of their own group")
    return repaired


def conflicts(perm: NDArray[np.int64], labels: NDArray[np.int64], batch_size: int) -> int:
    """How many rows share a batch with an earlier row of the same label."""
    batch, found = np.arange(len(perm)) // batch_size, 0
    for line in labels:
        placed = line[perm]
        keys = batch[placed >= 0] * (int(line.max()) + 1) + placed[placed >= 0]
        found += len(keys) - len(np.unique(keys))
    return found


@compiled
def rival(row: int, first: int, stop: int, ignored: int, perm: NDArray[np.int64], labels: NDArray[np.int64]) -> int:
    """The place between first and stop of a row with a label of this row, `ignored` left out; −1 for none, −2 for two
    or more.
    """
    found = -1
    for place in range(first, stop):
        other = perm[place]
        if other in (row, ignored):
            continue
        for line in range(len(labels)):
            if labels[line, row] >= 0 and labels[line, row] == labels[line, other]:
                if found >= 0 and found != place:
                    return -2
                found = place
    return found


@compiled
def _repair(
    perm: NDArray[np.int64], labels: NDArray[np.int64], batch_size: int, starts: NDArray[np.int64], reach: int
) -> int:
    """Swap rows until none shares a label in its batch, in place; returns for how many none fits.

    `reach`: the places that are tried for each.
    """
    left = 0
    for place in range(len(perm)):
        first = place - place % batch_size
        if rival(perm[place], first, place, -1, perm, labels) != -1:
            other = _place_that_fits(place, starts[place], reach, batch_size, perm, labels)
            if other >= 0:
                perm[place], perm[other] = perm[other], perm[place]
            else:
                left += 1
    return left


@compiled
def _place_that_fits(
    place: int, start: int, reach: int, batch_size: int, perm: NDArray[np.int64], labels: NDArray[np.int64]
) -> int:
    """The first place, from `start` on and around, whose row can change with the row at `place`; −1 for none."""
    row, rows, looked, at = perm[place], len(perm), 0, start
    first = place - place % batch_size
    stop = min(first + batch_size, rows)
    while looked < reach:
        there = at - at % batch_size
        end = min(there + batch_size, rows)
        last = min(end, at + reach - looked)
        # A batch with one rival can take the row in its rival's place alone.
        only = -2 if there == first else rival(row, there, end, -1, perm, labels)
        for other in range(at, last):
            if only in (-1, other) and rival(perm[other], first, stop, row, perm, labels) == -1:
                return other
        looked += last - at
        at = last % rows
    return -1
