"""Refine any plan by swaps that raise the learnable share of its batches, until they no longer pay.

Several threads look for swaps in some batches at once, changing nothing; then one makes, in a fixed order from the
seed, those that still gain. So the result is the same however many threads there are.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from gcbs_cli.orders.keeping_apart import NO_LABELS, order_of
from gcbs_cli.orders.swap_gains import SwapGains
from gcbs_cli.orders.swaps import fill_own, make, new_scratch, new_state, objective, propose
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.system.randomness import Stream

MOST_SWEEPS = 60
PAYS = 0.05
"""A sweep pays while it swaps this share of the rows: what is left to gain then is 1 to 2 % of all."""
TURNS = 8
FEWEST_VISITS = 16
MOST_VISITS = 256
"""Batches that are searched before swaps are made: an eighth of all, within these. They must not depend on the number
of threads, or the plan would.
"""


@dataclass(frozen=True)
class Refinement:
    """What swaps did to an order; the objective is the mean learnable share of the rows, by their candidates."""

    sweeps: int
    swaps: int
    objective_before: float
    objective_after: float


def refine(
    perm: Ints, gains: SwapGains, batch_size: int, *, labels: Ints = NO_LABELS, seed: int = 0
) -> tuple[Ints, Refinement]:
    """The order after swaps between batches until these no longer pay, and what they did; batches keep their sizes.

    Rows that `labels` keep apart stay apart. Never worse than before by the objective. The same bytes for one seed.
    """
    generator = Stream.REFINEMENT.generator(seed)
    order = order_of(perm, labels, batch_size)
    rows = len(perm)
    batches = -(-rows // batch_size)
    at_once = min(MOST_VISITS, max(FEWEST_VISITS, -(-batches // TURNS)))
    scratches = [new_scratch(rows, batches) for _ in range(min(available_cpus(), batches))]
    state = new_state(gains)
    before = objective(order, state)
    fill_own(order, state)
    swaps: list[int] = []
    with ThreadPoolExecutor(len(scratches)) as pool:
        while len(swaps) < MOST_SWEEPS:
            swaps.append(0)
            for visits in np.split(generator.permutation(batches), range(at_once, batches, at_once)):
                shares = np.array_split(visits, len(scratches))
                # The list waits for all threads, and raises what one of them raised.
                list(pool.map(partial(propose, order, state), shares, scratches))
                swaps[-1] += make(order, state, visits)
            if swaps[-1] < PAYS * rows:
                break
    scale = 1.0 / (2.0 * rows)
    return order.perm, Refinement(len(swaps), sum(swaps), before * scale, objective(order, state) * scale)
