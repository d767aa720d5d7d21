"""Refine any plan by swaps: first annealed, on pairs by themselves, then strict, on the loss itself.

The first sets out quickly and can leave a bad order; what it maximises counts two like negatives twice, so the second,
whose objective is the loss on the candidate pairs, takes over. Swaps that lose are accepted as in simulated annealing
(Kirkpatrick, Gelatt, Vecchi 1983), so that worths that are shared out badly at the start can be shared out again.
Several threads look for swaps in some batches at once, changing nothing; then one makes, in a fixed order from the
seed, those that still gain. So the result is the same however many threads there are.
"""

import time
from collections.abc import Iterator
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
"""Batches that are searched before swaps are made, and between two looks at the clock: an eighth of all, within these.
They must not depend on the number of threads, or the plan would.
"""


@dataclass(frozen=True)
class Refinement:
    """A refined order and how it came about.

    `objectives`: before, and after each strict sweep, nats a row and direction by which candidates in the batch raise
    the log-sums, less penalties: it rises as the loss gap falls. `timed_out`: the time limit ended it.
    """

    perm: Ints
    sweeps: int
    swaps: int
    objectives: list[float]
    seconds: float
    timed_out: bool

    def as_record(self) -> dict[str, float | int | bool]:
        """For the manifest."""
        return {
            "sweeps": self.sweeps,
            "swaps": self.swaps,
            "objective_before": self.objectives[0],
            "objective_after": self.objectives[-1],
            "seconds": self.seconds,
            "timed_out": self.timed_out,
        }


def refine(
    perm: Ints,
    gains: SwapGains,
    batch_size: int,
    *,
    labels: Ints = NO_LABELS,
    seed: int = 0,
    seconds: float = np.inf,
    first_temperature: float = FIRST_TEMPERATURE,
) -> Refinement:
    """Swap rows between batches until it no longer pays, or until the time limit; batches keep their sizes.

    Rows that `labels` keep apart stay apart. Never worse than `perm` by the objective. The same bytes for the same
    seed, unless the time limit ends it. The annealing has at most half of it: interrupted, it can leave a worse order.
    """
    start = time.monotonic()
    with ThreadPoolExecutor(available_cpus()) as pool:
        search = _Search(order_of(perm, labels, batch_size), seed, pool)
        before = objective(search.order, new_state(gains))
        annealing_stopped = False
        if first_temperature > 0.0:
            search.run(gains.linear(), start + seconds / 2.0, first_temperature)
            annealing_stopped = search.timed_out
            if objective(search.order, new_state(gains)) < before:
                search.order = order_of(perm, labels, batch_size)
        objectives = search.run(gains, start + seconds)
    scale = 1.0 / (2.0 * len(perm))
    return Refinement(
        search.order.perm,
        search.sweeps,
        search.swaps,
        [value * scale for value in [before, *objectives]],
        time.monotonic() - start,
        annealing_stopped or search.timed_out,
    )


class _Search:
    """An order, and the sweeps that change it."""

    def __init__(self, order: Order, seed: int, pool: ThreadPoolExecutor) -> None:
        self.order = order
        self.pool = pool
        self.generator = Stream.REFINEMENT.generator(seed)
        self.batches = -(-len(order.perm) // order.batch_size)
        threads = min(available_cpus(), self.batches)
        self.scratches = [new_scratch(len(order.perm), self.batches) for _ in range(threads)]
        self.sweeps = 0
        self.swaps = 0
        self.timed_out = False

    def run(self, gains: SwapGains, deadline: float, temperature: float = 0.0) -> list[float]:
        """Sweeps until they no longer pay; returns the objective before them and after each that is not annealed."""
        order = self.order
        state = new_state(gains)
        rows = len(order.perm)
        self.timed_out = False
        objectives = [objective(order, state)]
        fill_own(order, state)
        for _ in range(MOST_SWEEPS):
            if temperature < LAST_TEMPERATURE:
                temperature = 0.0
            state.least[:] = LEAST_GAIN - temperature * self.generator.exponential(size=rows)
            swaps = 0
            for visits in self._visits(deadline):
                shares = np.array_split(visits, len(self.scratches))
                # The list waits for all threads, and raises what one of them raised.
                list(self.pool.map(partial(propose, order, state), shares, self.scratches))
                swaps += make(order, state, visits)
            self.sweeps += 1
            self.swaps += swaps
            if temperature == 0.0:
                objectives.append(objective(order, state))
                if swaps < PAYS * rows:
                    break
            if self.timed_out:
                break
            temperature *= COOLING
        return objectives

    def _visits(self, deadline: float) -> Iterator[Ints]:
        """All batches in random order, some at a time, while there is time."""
        order = self.generator.permutation(self.batches)
        size = min(MOST_VISITS, max(FEWEST_VISITS, -(-self.batches // TURNS)))
        for start in range(0, len(order), size):
            if time.monotonic() > deadline:
                self.timed_out = True
                return
            yield order[start : start + size]
