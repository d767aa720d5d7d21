"""Rows to parts: each row's nearest parts, and sizes that are whole batches."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.planning.parts.clustering import SLACK, Centres
from gcbs_cli.planning.parts.streaming import PairStream, mean_rows
from gcbs_cli.planning.parts.whole_numbers import products
from gcbs_cli.system.arrays import inverse, ragged

PARTS_KEPT = 4
"""Nearest parts that are kept for each row: 24 bytes a row."""


@dataclass(frozen=True)
class NearestParts:
    """The parts that each row scores best with, best first: `parts` (N, m) int16, `scores` (N, m) int32."""

    parts: NDArray[np.int16]
    scores: NDArray[np.int32]


@dataclass(frozen=True)
class Partition:
    """Which rows make which part: part p is `members[starts[p]:starts[p + 1]]`, rows in rising order.

    members: (N,) int64; starts: (P + 1,) int64; moved: rows that are not in their best part, so that sizes fit.
    """

    members: NDArray[np.int64]
    starts: NDArray[np.int64]
    moved: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """(P,) rows of each part."""
        return np.diff(self.starts)

    def rows_of(self, part: int) -> NDArray[np.int64]:
        """The rows of a part, rising."""
        return self.members[self.starts[part] : self.starts[part + 1]]

    def part_of_row(self) -> NDArray[np.int16]:
        """(N,) the part of each row."""
        parts = np.empty(len(self.members), np.int16)
        parts[self.members] = np.repeat(np.arange(len(self.sizes), dtype=np.int16), self.sizes)
        return parts


def find_nearest_parts(stream: PairStream, centres: Centres) -> NearestParts:
    """The best few parts of every row, from one pass; equal scores go to the lower number."""
    kept = min(PARTS_KEPT, len(centres.values))
    parts = np.empty((stream.rows, kept), np.int16)
    scores = np.empty((stream.rows, kept), np.int32)
    for start, x, y in stream.blocks():
        found = centres.scores(mean_rows(x, y))
        best = _best(found, kept)
        parts[start : start + len(x)] = best
        scores[start : start + len(x)] = np.take_along_axis(found, best, axis=1)
    return NearestParts(parts, scores)


def part_sizes(wanted: NDArray[np.int64], batch_size: int) -> NDArray[np.int64]:
    """(P,) rows of each part: whole batches, those left over in the last part; at least a batch, at most a tenth more
    than the mean, and otherwise near to `wanted`, the rows that would come by themselves.
    """
    rows, parts = int(wanted.sum()), len(wanted)
    full = rows // batch_size
    most = max(-(-full // parts), int(full * (1.0 + SLACK) / parts))
    batches = np.clip(wanted // batch_size, 1, most)
    while (left := full - int(batches.sum())) != 0:
        rest = wanted - batches * batch_size
        if left > 0:
            order = np.argsort(-np.where(batches < most, rest, -rows - 1), kind="stable")
            able = int(np.count_nonzero(batches < most))
        else:
            order = np.argsort(np.where(batches > 1, rest, rows + 1), kind="stable")
            able = int(np.count_nonzero(batches > 1))
        batches[order[: min(able, abs(left))]] += 1 if left > 0 else -1
    sizes: NDArray[np.int64] = batches * batch_size
    sizes[-1] += rows - full * batch_size
    return sizes


def make_partition(nearest: NearestParts, centres: Centres, batch_size: int) -> Partition:
    """Every row in its best part, but for those that must move so that parts are whole batches.

    Rows that lose least move first, to the best part with room among those kept for them, else to the part with room
    whose centre is nearest.
    """
    parts = len(centres.values)
    labels = nearest.parts[:, 0].copy()
    sizes = part_sizes(np.bincount(labels, minlength=parts), batch_size)
    room = sizes - np.bincount(labels, minlength=parts)
    between = products(centres.values, centres.values)
    moved = 0
    while (room < 0).any():
        part = int(np.argmin(room))
        rows = np.flatnonzero(labels == part)
        targets = _moves(nearest, rows, part, room, between)
        labels[rows] = targets
        moved += int(np.count_nonzero(targets != part))
    members = np.argsort(labels, kind="stable").astype(np.int64)
    return Partition(members, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), moved)


def _moves(
    nearest: NearestParts, rows: NDArray[np.int64], part: int, room: NDArray[np.int64], between: NDArray[np.int32]
) -> NDArray[np.int16]:
    """(n,) where the rows of an overfull part go; `room` (P,) is brought up to date."""
    parts, scores = nearest.parts[rows], nearest.scores[rows].astype(np.int64)
    targets = np.full(len(rows), part, np.int16)
    none = np.iinfo(np.int64).min // 2
    while room[part] < 0:
        stays = targets == part
        # To a part that the row does not list it may go at the price of a similarity of 4: after all others.
        offered = np.where(room[parts] > 0, scores, none)
        best = np.argmax(offered, axis=1)
        value = offered[np.arange(len(rows)), best]
        to = parts[np.arange(len(rows)), best].astype(np.int64)
        listed = value > none
        if not (listed & stays).any():
            to[:] = int(np.argmax(np.where(room > 0, between[part], np.iinfo(np.int32).min)))
            value = np.zeros(len(rows), np.int64)
            listed[:] = True
        loss = np.where(listed & stays, scores[:, 0] - value, np.iinfo(np.int64).max)
        order = np.argsort(loss, kind="stable")[: min(int(-room[part]), int((listed & stays).sum()))]
        goes = order[_rank_within(to[order]) < room[to[order]]]
        targets[goes] = to[goes]
        np.subtract.at(room, to[goes], 1)
        room[part] += len(goes)
    return targets


def _rank_within(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) how many equal values come before each."""
    order = np.argsort(values, kind="stable")
    return ragged(np.unique(values, return_counts=True)[1])[1][inverse(order)]


def _best(scores: NDArray[np.int32], kept: int) -> NDArray[np.int64]:
    """(n, kept) the columns of the largest scores, falling, the lower column first where they are equal."""
    parts = scores.shape[1]
    keys = scores.astype(np.int64) * parts - np.arange(parts)
    if kept < parts:
        some = np.argpartition(-keys, kept - 1, axis=1)[:, :kept]
    else:
        some = np.broadcast_to(np.arange(parts), keys.shape)
    order = np.argsort(-np.take_along_axis(keys, some, axis=1), axis=1)
    return np.take_along_axis(some, order, axis=1)
