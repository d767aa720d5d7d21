"""Local search by swaps on the loss itself: every swap made raises what is counted by the amount that is computed.

Row i sees log(1 + Σ share_ij) over its batch, in each direction; a second hard negative adds less than the first. A row
u tries the rows of its best few batches by what both would gain if the other's place were empty; the best of each batch
is then evaluated exactly, in time linear in the degrees of the two. One batch is in hand at a time, and what every row
would gain by joining it is kept, so that a row of another batch is tried for a memory access each.
"""

from math import log
from typing import NamedTuple

import numpy as np

from gcbs_cli.graph.adjacency import entries_of
from gcbs_cli.orders.keeping_apart import Order, change_places, may_swap, places_of
from gcbs_cli.orders.swap_gains import SwapGains
from gcbs_cli.system.arrays import Bools, Float32s, Floats, Int32s, Ints
from gcbs_cli.system.compiled import compiled

TARGETS = 3
"""Batches tried for each row: those with most worth to it."""
LARGEST_PRODUCT = 1e100
"""Factors are multiplied up to here before their logarithm is taken, which takes as long as ten products."""


class State(NamedTuple):
    """What the search looks at and keeps: the arrays of `SwapGains`, and more by row and by place.

    By row: `sums` (N, 2), what its batch adds to its two sums, and `awake` (N,), whether something near it has changed
    since it was last tried. By place, (N,): `own`, what its row's staying is worth, `least`, what a swap of its row
    must gain, and `partner`, the row proposed to change places with, −1 for none.
    """

    indptr: Ints
    indices: Int32s
    shares: Float32s
    penalties: Float32s
    sums: Floats
    awake: Bools
    own: Floats
    least: Floats
    partner: Ints


class Scratch(NamedTuple):
    """Arrays of one thread to work in: zeros, and ones in `product`.

    By place, (N,): `joins`, what the batch in hand and a row would gain by its joining, and `near`, what is counted
    twice of that for neighbours of the row in hand. By batch, (B,): `worth`, the same of the row in hand and a batch.
    By either: `added` (N, 2), what a batch adds to the sums of who joins it, and `product` (N,), by which factor
    that raises the sums of the batch, before their logarithms are taken.
    """

    joins: Floats
    near: Floats
    worth: Floats
    added: Floats
    product: Floats


def new_state(gains: SwapGains) -> State:
    """Before anything is summed; all rows are awake."""
    rows = len(gains.indptr) - 1
    return State(
        *gains,
        sums=np.zeros((rows, 2)),
        awake=np.ones(rows, np.bool_),
        own=np.zeros(rows),
        least=np.zeros(rows),
        partner=np.full(rows, -1),
    )


def new_scratch(rows: int, batches: int) -> Scratch:
    """Scratch for one thread, as it is between two searches."""
    return Scratch(np.zeros(rows), np.zeros(rows), np.zeros(batches), np.zeros((rows, 2)), np.ones(rows))


@compiled
def objective(order: Order, state: State) -> float:
    """Σ over rows of log(1 + Σ shares), x→y and y→x, less the penalties inside batches; fills `sums`."""
    total = 0.0
    for row in range(len(order.perm)):
        x, y, cost = 0.0, 0.0, 0.0
        for e in entries_of(row, state.indptr):
            if order.batch[state.indices[e]] == order.batch[row]:
                x += state.shares[e, 0]
                y += state.shares[e, 1]
                cost += state.penalties[e]
        state.sums[row, 0] = x
        state.sums[row, 1] = y
        total += log((1.0 + x) * (1.0 + y)) - cost / 2.0  # a pair's penalty is met at both of its rows
    return total


@compiled
def fill_own(order: Order, state: State) -> None:
    """Fill `own`, from `sums`."""
    for row in range(len(order.perm)):
        state.own[order.place[row]] = _worth_of_staying(row, order.batch, state)


@compiled
def _worth_of_staying(u: int, batch: Ints, state: State) -> float:
    """What the objective loses when a row leaves its place empty."""
    shares = state.shares
    worth = 0.0
    product = (1.0 + state.sums[u, 0]) * (1.0 + state.sums[u, 1])
    for e in entries_of(u, state.indptr):
        i = state.indices[e]
        if batch[i] == batch[u]:
            x, y = 1.0 + state.sums[i, 0], 1.0 + state.sums[i, 1]
            product *= x * y / ((x - shares[e, 2]) * (y - shares[e, 3]))
            worth -= state.penalties[e]
            if product > LARGEST_PRODUCT:
                worth += log(product)
                product = 1.0
    return worth + log(product)


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
    x, y = 1.0, 1.0
    gain = -log((1.0 + state.sums[one, 0]) * (1.0 + state.sums[one, 1]))
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
        gain -= sign * state.penalties[e]
        if sign > 0.0:
            x += shares[e, 0]
            y += shares[e, 1]
        to_x, to_y = sign * shares[e, 2], sign * shares[e, 3]
        if f < stop and state.indices[f] == i:
            if not with_common:
                continue
            to_x -= sign * shares[f, 2]
            to_y -= sign * shares[f, 3]
        at_x, at_y = 1.0 + state.sums[i, 0], 1.0 + state.sums[i, 1]
        gain += log((at_x + to_x) * (at_y + to_y) / (at_x * at_y))
    return gain + log(x * y)


@compiled
def propose(order: Order, state: State, visits: Ints, scratch: Scratch) -> None:
    """A swap that gains for each place of some batches whose row is awake, none of them made.

    Rows for which none is found fall asleep, unless their swaps may lose.
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
            _gather(row, order.place, state, scratch.joins, scratch)
        for p in places:
            u = order.perm[p]
            if state.awake[u]:
                state.partner[p] = _partner(u, order, state, scratch)
                state.awake[u] = state.partner[p] >= 0 or state.least[p] < 0.0
        for row in rows:
            _clear(row, order.place, state, scratch.joins)


@compiled
def _join(row: int, order: Order, state: State, scratch: Scratch) -> None:
    """Let a row of the batch in hand count in what others would gain by joining it."""
    shares = state.shares
    x, y = 1.0 / (1.0 + state.sums[row, 0]), 1.0 / (1.0 + state.sums[row, 1])
    for e in entries_of(row, state.indptr):
        v = order.place[state.indices[e]]
        scratch.joins[v] -= state.penalties[e]
        scratch.added[v, 0] += shares[e, 2]
        scratch.added[v, 1] += shares[e, 3]
        scratch.product[v] *= (1.0 + shares[e, 0] * x) * (1.0 + shares[e, 1] * y)
        if scratch.product[v] > LARGEST_PRODUCT:
            scratch.joins[v] += log(scratch.product[v])
            scratch.product[v] = 1.0


@compiled
def _gather(row: int, key: Ints, state: State, values: Floats, scratch: Scratch) -> None:
    """Give the values at the keys of a row's neighbours the logarithm of what was added and multiplied there, once."""
    for e in entries_of(row, state.indptr):
        at = key[state.indices[e]]
        x = scratch.added[at, 0]
        y = scratch.added[at, 1]
        product = scratch.product[at]
        if x + y != 0.0 or product != 1.0:
            values[at] += log(product * (1.0 + x) * (1.0 + y))
            scratch.added[at, 0] = 0.0
            scratch.added[at, 1] = 0.0
            scratch.product[at] = 1.0


@compiled
def _partner(u: int, order: Order, state: State, scratch: Scratch) -> int:
    """The first row whose place gains enough for u; −1 for none."""
    partner = -1
    place = order.place[u]
    _look_around(u, order, state, scratch)
    for _ in range(TARGETS):
        there = _best_batch(u, order, state, scratch.worth)
        if there < 0:
            break
        p = _best_to_leave(u, there, order, state.own, scratch)
        if p >= 0:
            estimate = scratch.worth[there] - state.own[place] + scratch.joins[p] - state.own[p] - scratch.near[p]
            if (
                estimate > min(0.0, state.least[place])
                and gain_of_swap(u, order.perm[p], order.batch, state) > state.least[place]
            ):
                partner = order.perm[p]
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
            x, y = 1.0 + state.sums[i, 0], 1.0 + state.sums[i, 1]
            worth = log((x + shares[e, 2]) * (y + shares[e, 3]) / (x * y)) - state.penalties[e]
            scratch.near[order.place[i]] = 2.0 * worth
            scratch.worth[there] += worth
            scratch.added[there, 0] += shares[e, 0]
            scratch.added[there, 1] += shares[e, 1]
    _gather(u, order.batch, state, scratch.worth, scratch)


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
def _best_to_leave(u: int, there: int, order: Order, own: Floats, scratch: Scratch) -> int:
    """The place in a batch of the row that u had best change places with; −1 where labels allow none."""
    best = -1
    most = -np.inf
    for p in places_of(there, order):
        value = scratch.joins[p] - own[p] - scratch.near[p]
        if value > most and may_swap(u, order.perm[p], order):
            best = p
            most = value
    return best


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
            if v >= 0 and may_swap(u, v, order) and gain_of_swap(u, v, order.batch, state) > state.least[p]:
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
    x = 0.0
    y = 0.0
    for e in entries_of(one, state.indptr):
        i = state.indices[e]
        if batch[i] == batch[one]:
            x += shares[e, 0]
            y += shares[e, 1]
            # Never below what rounding leaves: a sum of shares is not negative.
            state.sums[i, 0] = max(0.0, state.sums[i, 0] + sign * shares[e, 2])
            state.sums[i, 1] = max(0.0, state.sums[i, 1] + sign * shares[e, 3])
    state.sums[one, 0] = x
    state.sums[one, 1] = y
