"""Rows that must never share a batch: whether that can be done, and a plan made so with few changes."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.system.arrays import equal_rows
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.errors import BadInput

NO_LABELS = np.empty((0, 0), np.int64)


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

    The condition of Gale (1957) and Ryser (1957) for batches of given sizes whose members all differ in label.
    """
    sizes = np.full(-(-rows // batch_size), batch_size)
    sizes[-1] = rows - batch_size * (len(sizes) - 1)
    for line in labels:
        _, counts = np.unique(line[line >= 0], return_counts=True)
        if len(counts) == 0:
            continue
        largest = int(counts.max())
        if largest > len(sizes):
            raise BadInput(
                f"{option}: one group has {largest:,} rows, and there are {len(sizes):,} batches of {batch_size}: some "
                f"would have to share one; use a smaller --batch-size or split the group"
            )
        free = int((line < 0).sum())
        most = np.minimum(counts[:, None], np.arange(1, len(sizes) + 1)).sum(axis=0) if len(counts) < 4096 else None
        if most is not None and (np.cumsum(sizes) > most + free).any():
            raise BadInput(f"{option}: the groups are too large for batches of {batch_size} in which all rows differ")


def keep_apart(perm: NDArray[np.int64], labels: NDArray[np.int64], batch_size: int, seed: int) -> NDArray[np.int64]:
    """The order with as few swaps as found so that no batch holds two rows of one label.

    Each row that shares a label in its batch changes places with the first row, from a random place on, that makes no
    conflict there or here. Raises BadInput where swaps find no way, which labels of one kind alone never meet.
    """
    if labels.size == 0:
        return perm
    starts = np.random.default_rng([seed, 0xA9A27]).integers(len(perm), size=len(perm))
    repaired = perm.copy()
    left = int(_repair(repaired, labels, batch_size, starts))
    if left and len(labels) == 1:
        repaired = _deal(labels[0], perm, batch_size)
        left = int(_repair(repaired, labels, batch_size, starts))
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


def _deal(line: NDArray[np.int64], perm: NDArray[np.int64], batch_size: int) -> NDArray[np.int64]:
    """An order without conflicts where there is one: the largest group first, each into the batches with most room."""
    place = np.empty(len(perm), np.int64)
    place[perm] = np.arange(len(perm))
    room = np.full(-(-len(perm) // batch_size), batch_size)
    room[-1] = len(perm) - batch_size * (len(room) - 1)
    batches: list[list[int]] = [[] for _ in room]
    rows = np.flatnonzero(line >= 0)
    rows = rows[np.argsort(line[rows], kind="stable")]
    bounds = np.flatnonzero(np.diff(line[rows], prepend=-1, append=-1))
    groups = [rows[a:b] for a, b in pairwise(bounds)]
    for group in sorted(groups, key=len, reverse=True):
        chosen = np.argsort(-room, kind="stable")[: len(group)]
        for row, batch in zip(group, chosen, strict=True):
            batches[batch].append(int(row))
            room[batch] -= 1
    for row in perm[line[perm] < 0]:
        batch = int(np.argmax(room > 0))
        batches[batch].append(int(row))
        room[batch] -= 1
    return np.concatenate([np.array(batch, np.int64) for batch in batches])


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
def _repair(perm: NDArray[np.int64], labels: NDArray[np.int64], batch_size: int, starts: NDArray[np.int64]) -> int:
    rows, left = len(perm), 0
    for place in range(rows):
        first = place - place % batch_size
        stop = min(first + batch_size, rows)
        row = perm[place]
        if rival(row, first, place, -1, perm, labels) == -1:
            continue
        moved = False
        for step in range(rows):
            other_place = (starts[place] + step) % rows
            if first <= other_place < stop:
                continue
            other = perm[other_place]
            other_first = other_place - other_place % batch_size
            other_stop = min(other_first + batch_size, rows)
            if rival(row, other_first, other_stop, other, perm, labels) != -1:
                continue
            if rival(other, first, stop, row, perm, labels) != -1:
                continue
            perm[place], perm[other_place] = other, row
            moved = True
            break
        if not moved:
            left += 1
    return left
