"""Local search by swaps on the learnable share itself: every swap made raises what is counted by what is computed.

Row i sees (base_i + Σ share_ij, where j can be learned from) / (1 + Σ |share_ij|) over its batch, in each direction: a
second hard negative adds less than the first, and one that is too hard takes from what the others add. A row u tries
the rows of its best few batches by what both would gain if the other's place were empty; the best of each batch is then
evaluated exactly, in time linear in the degrees of the two. One batch is in hand at a time, and what every row would
gain by joining it is kept, so that a row of another batch is tried for a memory access each.
"""

from typing import NamedTuple

import numpy as np

from gcbs_cli.graph.adjacency import entries_of
from gcbs_cli.orders.keeping_apart import Order, change_places, may_swap, places_of
from gcbs_cli.orders.swap_gains import SwapGains
from gcbs_cli.system.arrays import Bools, Float32s, Floats, Int32s, Ints
from gcbs_cli.system.compiled import compiled

TARGETS = 3
"""Batches tried for each row: those with most worth to it."""
LEAST_GAIN = 1e-6
"""A swap must gain more than this, summed over rows and directions."""

Sums = tuple[float, float, float, float]
"""Of the shares in a row's batch: those to learn from, x→y, all of them, x→y, and the same y→x."""
EMPTY = (0.0, 0.0, 0.0, 0.0)


class State(NamedTuple):
    """What the search looks at and keeps: the arrays of `SwapGains`, and more by row and by place.

    By row: `sums` (N, 4), the `Sums` of its batch, and `awake` (N,), whether something near it has changed since it was
    last tried. By place, (N,): `own`, what its row's staying is worth, and `partner`, the row proposed to change places
    with, −1 for none.
    """

    indptr: Ints
    indices: Int32s
    shares: Float32s
    base: Floats
    sums: Floats
    awake: Bools
    own: Floats
    partner: Ints


class Scratch(NamedTuple):
    """Arrays of one thread to work in: zeros between two searches.

    By place, (N,): `joins`, what the batch in hand and a row would gain by its joining, and `near`, what is counted
    twice of that for neighbours of the row in hand. By batch, (B,): `worth`, the same of the row in hand and a batch.
    By either: `added` (N, 4), the `Sums` that a batch gives to who joins it.
    """

    joins: Floats
    near: Floats
    worth: Floats
    added: Floats


def new_state(gains: SwapGains) -> State:
    """Before anything is summed; all rows are awake."""
    rows = len(gains.base)
    return State(
        *gains,
        sums=np.zeros((rows, 4)),
        awake=np.ones(rows, np.bool_),
        own=np.zeros(rows),
        partner=np.full(rows, -1),
    )


def new_scratch(rows: int, batches: int) -> Scratch:
    """Scratch for one thread."""
    return Scratch(np.zeros(rows), np.zeros(rows), np.zeros(batches), np.zeros((rows, 4)))


@compiled
def with_share(sums: Sums, x: float, y: float, sign: float) -> Sums:
    """The sums with the shares of one more key (sign 1), or of one less (−1); x and y are negative where too hard."""
    return (
        sums[0] + sign * max(x, 0.0),
        sums[1] + sign * abs(x),
        sums[2] + sign * max(y, 0.0),
        sums[3] + sign * abs(y),
    )


@compiled
def learnable(row: int, sums: Sums, base: Floats) -> float:
    """The learnable share of a row with these sums, x→y and y→x together."""
    return (base[row, 0] + sums[0]) / (1.0 + sums[1]) + (base[row, 1] + sums[2]) / (1.0 + sums[3])


@compiled
def objective(order: Order, state: State) -> float:
    """Σ over rows of their learnable shares; fills `sums`."""
    total = 0.0
    for row in range(len(order.perm)):
        sums = EMPTY
        for e in entries_of(row, state.indptr):
            if order.batch[state.indices[e]] == order.batch[row]:
                sums = with_share(sums, state.shares[e, 0], state.shares[e, 1], 1.0)
        state.sums[row] = sums
        total += learnable(row, sums, state.base)
    return total


@compiled
def fill_own(order: Order, state: State) -> None:
    """Fill `own`, from `sums`."""
    for row in range(len(order.perm)):
        state.own[order.place[row]] = _worth_of_staying(row, order.batch, state)


@compiled
def _worth_of_staying(u: int, batch: Ints, state: State) -> float:
    """What the objective loses when a row leaves its place empty."""
    worth = learnable(u, state.sums[u], state.base) - learnable(u, EMPTY, state.base)
    for e in entries_of(u, state.indptr):
        i = state.indices[e]
        if batch[i] == batch[u]:
            worth -= _change(i, state.shares[e, 2], state.shares[e, 3], -1.0, state)
    return worth


@compiled
def _change(row: int, x: float, y: float, sign: float, state: State) -> float:
    """By how much a row's learnable share changes as a key with these shares comes (sign 1) or goes (−1)."""
    sums = state.sums[row]
    return learnable(row, with_share(sums, x, y, sign), state.base) - learnable(row, sums, state.base)


@compiled
def gain_of_swap(u: int, v: int, batch: Ints, state: State) -> float:
    """By how much the objective rises when u and v change places."""
    return _gain_of_move(u, v, True, batch, state) + _gain_of_move(v, u, False, batch, state)


@compiled
def _gain_of_move(one: int, other: int, with_common: bool, batch: Ints, state: State) -> float:
    """What `one` and its neighbours gain by its going to the other's place.

    Neighbours of both are counted once, `with_common`, by what they lose and what they gain.
    """
    shares = state.shares
    here = batch[one]
    there = batch[other]
    own = EMPTY
    gain = -learnable(one, state.sums[one], state.base)
    # Neighbours are sorted, so that f runs once through those of the other.
    f = state.indptr[other]
    stop = state.indptr[other + 1]
    for e in entries_of(one, state.indptr):
        i = state.indices[e]
        while f < stop and state.indices[f] < i:
            f += 1
        if i == other or (batch[i] != here and batch[i] != there):
            continue
        sign = -1.0 if batch[i] == here else 1.0
        if sign > 0.0:
            own = with_share(own, shares[e, 0], shares[e, 1], 1.0)
        sums = with_share(state.sums[i], shares[e, 2], shares[e, 3], sign)
        if f < stop and state.indices[f] == i:
            if not with_common:
                continue
            sums = with_share(sums, shares[f, 2], shares[f, 3], -sign)
        gain += learnable(i, sums, state.base) - learnable(i, state.sums[i], state.base)
    return gain + learnable(one, own, state.base)


@compiled
def propose(order: Order, state: State, visits: Ints, scratch: Scratch) -> None:
    """A swap that gains for each place of some batches whose row is awake, none of them made.

    Rows for which none is found fall asleep.
    """
    for here in visits:
        places = places_of(here, order)
        rows = order.perm[places.start : places.stop]
        state.partner[places.start : places.stop] = -1
        if not state.awake[rows].any():
            continue
        for row in rows:
            _join(row, order, state, scratch)
        for row in rows:
            for e in entries_of(row, state.indptr):
                v = state.indices[e]
                _gather(v, order.place[v], state, scratch.joins, scratch)
        for p in places:
            u = order.perm[p]
            if state.awake[u]:
                state.partner[p] = _partner(u, order, state, scratch)
                state.awake[u] = state.partner[p] >= 0
        for row in rows:
            _clear(row, order.place, state, scratch.joins)


@compiled
def _join(row: int, order: Order, state: State, scratch: Scratch) -> None:
    """Let a row of the batch in hand count in what others would gain by joining it."""
    shares = state.shares
    for e in entries_of(row, state.indptr):
        v = order.place[state.indices[e]]
        scratch.joins[v] += _change(row, shares[e, 0], shares[e, 1], 1.0, state)
        scratch.added[v] = with_share(scratch.added[v], shares[e, 2], shares[e, 3], 1.0)


@compiled
def _gather(u: int, at: int, state: State, values: Floats, scratch: Scratch) -> None:
    """Give the value at a place or batch what a row would see there, from what was added, once."""
    if scratch.added[at, 1] + scratch.added[at, 3] > 0.0:
        values[at] += learnable(u, scratch.added[at], state.base) - learnable(u, EMPTY, state.base)
        scratch.added[at] = 0.0


@compiled
def _partner(u: int, order: Order, state: State, scratch: Scratch) -> int:
    """The first row whose place gains enough for u; −1 for none."""
    partner = -1
    _look_around(u, order, state, scratch)
    for _ in range(TARGETS):
        there = _best_batch(u, order, state, scratch.worth)
        if there < 0:
            break
        v, value = _best_to_leave(u, there, order, state.own, scratch)
        estimate = scratch.worth[there] - state.own[order.place[u]] + value
        if estimate > 0.0 and gain_of_swap(u, v, order.batch, state) > LEAST_GAIN:
            partner = v
            break
        scratch.worth[there] = -np.inf
    _clear(u, order.place, state, scratch.near)
    _clear(u, order.batch, state, scratch.worth)
    return partner


@compiled
def _look_around(u: int, order: Order, state: State, scratch: Scratch) -> None:
    """Fill `worth` of the other batches where u has neighbours, and `near` of these."""
    shares = state.shares
    for e in entries_of(u, state.indptr):
        i = state.indices[e]
        there = order.batch[i]
        if there != order.batch[u]:
            worth = _change(i, shares[e, 2], shares[e, 3], 1.0, state)
            scratch.near[order.place[i]] = 2.0 * worth
            scratch.worth[there] += worth
            scratch.added[there] = with_share(scratch.added[there], shares[e, 0], shares[e, 1], 1.0)
    for e in entries_of(u, state.indptr):
        _gather(u, order.batch[state.indices[e]], state, scratch.worth, scratch)


@compiled
def _best_batch(u: int, order: Order, state: State, worth: Floats) -> int:
    """The batch of most worth among those where u has neighbours, but its own; −1 for none."""
    best = -1
    most = -np.inf
    for e in entries_of(u, state.indptr):
        there = order.batch[state.indices[e]]
        if worth[there] > most and there != order.batch[u]:
            best = there
            most = worth[there]
    return best


@compiled
def _best_to_leave(u: int, there: int, order: Order, own: Floats, scratch: Scratch) -> tuple[int, float]:
    """The row of a batch that u had best change places with, and what it gains; −1 and −∞ where labels allow none."""
    best = -1
    most = -np.inf
    for p in places_of(there, order):
        value = scratch.joins[p] - own[p] - scratch.near[p]
        if value > most and may_swap(u, order.perm[p], order):
            best = order.perm[p]
            most = value
    return best, most


@compiled
def _clear(row: int, key: Ints, state: State, values: Floats) -> None:
    """Set the values at the keys of a row's neighbours to zero."""
    for e in entries_of(row, state.indptr):
        values[key[state.indices[e]]] = 0.0


@compiled
def make(order: Order, state: State, visits: Ints) -> int:
    """Make the swaps proposed for some batches that still gain enough, in turn; returns how many.

    Wakes the rows around those that moved.
    """
    swaps = 0
    for here in visits:
        for p in places_of(here, order):
            u = order.perm[p]
            v = state.partner[p]
            if v >= 0 and may_swap(u, v, order) and gain_of_swap(u, v, order.batch, state) > LEAST_GAIN:
                _swap(u, v, order, state)
                swaps += 1
    return swaps


@compiled
def _swap(u: int, v: int, order: Order, state: State) -> None:
    """Let u and v change places; sums and own follow."""
    for sign in (-1.0, 1.0):
        for one in (u, v):
            _change_sums(one, sign, order.batch, state)
        if sign < 0.0:
            change_places(u, v, order)
    for one in (u, v):
        state.own[order.place[one]] = _worth_of_staying(one, order.batch, state)
        state.awake[one] = True
        for e in entries_of(one, state.indptr):
            i = int(state.indices[e])
            state.awake[i] = True
            if order.batch[i] == order.batch[u] or order.batch[i] == order.batch[v]:
                state.own[order.place[i]] = _worth_of_staying(i, order.batch, state)


@compiled
def _change_sums(one: int, sign: float, batch: Ints, state: State) -> None:
    """Let a row join (sign 1) the others of its batch, or leave (−1) them; its own sums are those after joining."""
    shares = state.shares
    own = EMPTY
    for e in entries_of(one, state.indptr):
        i = state.indices[e]
        if batch[i] == batch[one]:
            own = with_share(own, shares[e, 0], shares[e, 1], 1.0)
            state.sums[i] = with_share(state.sums[i], shares[e, 2], shares[e, 3], sign)
    state.sums[one] = own
