"""Refine any plan by swaps: first annealed, on pairs by themselves, then strict, on the loss itself.

The first sets out quickly and can leave a bad order; what it maximises counts two like negatives twice, so the second,
whose objective is the loss on the candidate pairs, takes over. Swaps that lose are accepted as in simulated annealing
(Kirkpatrick, Gelatt, Vecchi 1983), so that worths that are shared out badly at the start can be shared out again.
Several threads look for swaps in some batches at once, changing nothing; then one makes, in a fixed order from the
seed, those that still gain. So the result is the same however many threads there are.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from gcbs_cli.orders.keeping_apart import NO_LABELS, Order, order_of
from gcbs_cli.orders.swap_gains import SwapGains
from gcbs_cli.orders.swaps import fill_own, make, new_scratch, new_state, objective, propose
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.system.randomness import Stream

FIRST_TEMPERATURE = 2.0
LAST_TEMPERATURE = 0.2
"""Nats; the annealing is over below it."""
COOLING = 0.7
"""The factor of the temperature from sweep to sweep."""
LEAST_GAIN = 1e-6
"""A swap must gain more than this, in nats: less may be rounding, and could be swapped back and forth."""
MOST_SWEEPS = 60
PAYS = 0.004
"""A sweep pays while it swaps this share of the rows."""
TURNS = 8
FEWEST_VISITS = 16
MOST_VISITS = 256
"""Batches that are searched before swaps are made: an eighth of all, within these. They must not depend on the number
of threads, or the plan would.
"""


@dataclass(frozen=True)
class Refinement:
    """What swaps did to an order.

    The objective: by how much candidates in the batch raise the log-sums, less penalties, in nats a row and direction.
    It rises as the loss gap falls.
    """

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
    before = objective(order, new_state(gains))
    annealed, _ = search(order, gains.linear(), generator, FIRST_TEMPERATURE)
    if objective(order, new_state(gains)) < before:
        order = order_of(perm, labels, batch_size)
    strict, objectives = search(order, gains, generator, 0.0)
    swaps = annealed + strict
    scale = 1.0 / (2.0 * len(perm))
    return order.perm, Refinement(len(swaps), sum(swaps), before * scale, objectives[-1] * scale)


def search(
    order: Order, gains: SwapGains, generator: np.random.Generator, temperature: float
) -> tuple[list[int], list[float]]:
    """Sweeps that change the order until they no longer pay: the swaps of each, and the objective before them and
    after each that is not annealed.

    temperature: of the first sweep, in nats; 0 for a strict search.
    """
    rows = len(order.perm)
    batches = -(-rows // order.batch_size)
    at_once = min(MOST_VISITS, max(FEWEST_VISITS, -(-batches // TURNS)))
    scratches = [new_scratch(rows, batches) for _ in range(min(available_cpus(), batches))]
    state = new_state(gains)
    objectives = [objective(order, state)]
    fill_own(order, state)
    swaps = []
    with ThreadPoolExecutor(len(scratches)) as pool:
        for _ in range(MOST_SWEEPS):
            if temperature < LAST_TEMPERATURE:
                temperature = 0.0
            state.least[:] = LEAST_GAIN - temperature * generator.exponential(size=rows)
            swaps.append(0)
            for visits in np.split(generator.permutation(batches), range(at_once, batches, at_once)):
                shares = np.array_split(visits, len(scratches))
                # The list waits for all threads, and raises what one of them raised.
                list(pool.map(partial(propose, order, state), shares, scratches))
                swaps[-1] += make(order, state, visits)
            if temperature == 0.0:
                objectives.append(objective(order, state))
                if swaps[-1] < PAYS * rows:
                    break
            temperature *= COOLING
    return swaps, objectives
