"""Refine any plan by swaps: an annealed search on pairs by themselves, then a strict one on the loss itself.

The first sets out quickly and can leave a bad order; what it maximises counts two like negatives twice, so the second,
whose objective is the loss on the candidate pairs, takes over. In both, several threads look for swaps in some batches
at once, changing nothing; then one makes, in a fixed order from the seed, those that still gain. So the result is the
same however many threads there are.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.orders.exact_swaps import (
    empty_sums,
    exact_objective,
    exact_scratch,
    fill_worth_of_staying,
    make_exact,
    propose_exact,
)
from gcbs_cli.orders.keeping_apart import NO_LABELS
from gcbs_cli.orders.linear_swaps import linear_objective, linear_scratch, make_linear, propose_linear
from gcbs_cli.orders.swap_gains import SwapGains
from gcbs_cli.orders.swap_order import Annealing, Order, no_proposals, order_of
from gcbs_cli.system.compiled import needs_compiling
from gcbs_cli.system.limits import available_cpus

FIRST_TEMPERATURE = 2.0
COOLING = 0.7
LAST_TEMPERATURE = 0.02
"""Nats; the annealing is over below it."""
LINEAR_SWEEPS = 60
EXACT_SWEEPS = 60
PAYS = 0.002
"""A sweep pays while it swaps this share of the rows."""
TURNS = 8
FEWEST_VISITS, MOST_VISITS = 16, 256
"""Batches that are searched before swaps are made, and between two looks at the clock: an eighth of all within these.
They must not depend on the number of threads.
"""
DRAWS = 1 << 16


@dataclass(frozen=True)
class Refinement:
    """A refined order and how it came about.

    `objectives`: before, and after each strict sweep, nats a row and direction by which candidates in the batch raise
    the log-sums, less penalties: it rises as the loss gap falls. `timed_out`: the time limit ended it.
    """

    perm: NDArray[np.int64]
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


def compiled_already() -> bool:
    """Whether the search can begin without compiling its loops first."""
    return not (needs_compiling(propose_linear) or needs_compiling(propose_exact))


def refine(
    perm: NDArray[np.int64],
    gains: SwapGains,
    batch_size: int,
    *,
    labels: NDArray[np.int64] = NO_LABELS,
    seed: int = 0,
    seconds: float | None = None,
    first_temperature: float = FIRST_TEMPERATURE,
    cooling: float = COOLING,
) -> Refinement:
    """Swap rows between batches until it no longer pays, or until the time limit; batches keep their sizes.

    Rows that `labels` keep apart stay apart. Never worse than `perm` by the objective. The same bytes for the same
    seed, unless the time limit ends it. The annealing has at most half of it: interrupted, it can leave a worse order.
    """
    began = time.monotonic()
    limit = np.inf if seconds is None else seconds
    with ThreadPoolExecutor(available_cpus()) as pool:
        generator = np.random.default_rng([seed, 0x5A4B])
        search = _Search(order_of(perm, labels, batch_size), gains, generator, began + limit / 2.0, pool)
        before = search.objective()
        if first_temperature > 0.0:
            search.anneal(first_temperature, cooling)
            if search.objective() < before:
                search.order = order_of(perm, labels, batch_size)
        annealing_stopped, search.timed_out, search.deadline = search.timed_out, False, began + limit
        objectives = [before, *search.improve()]
    scale = 1.0 / (2.0 * len(perm))
    return Refinement(
        search.order.perm,
        search.sweeps,
        search.swaps,
        [value * scale for value in objectives],
        time.monotonic() - began,
        annealing_stopped or search.timed_out,
    )


class _Search:
    """One search: an order, and the sweeps that change it."""

    def __init__(
        self, order: Order, gains: SwapGains, generator: np.random.Generator, deadline: float, pool: ThreadPoolExecutor
    ) -> None:
        self.order, self.gains, self.generator, self.deadline, self.pool = order, gains, generator, deadline, pool
        self.batches = -(-len(order.perm) // order.batch_size)
        self.threads = min(available_cpus(), self.batches)
        self.proposals = no_proposals(len(order.perm))
        self.sweeps, self.swaps, self.timed_out = 0, 0, False

    def objective(self) -> float:
        """The exact objective, computed afresh; nats."""
        return exact_objective(self.order.batch, self.gains, np.empty((len(self.order.perm), 2)))

    def anneal(self, temperature: float, cooling: float) -> None:
        """Swaps by the worth of pairs by themselves; uphill and downhill at first."""
        order, own = self.order, np.zeros(len(self.order.perm))
        pairs = self.gains.linear()
        linear_objective(order, pairs, own)
        scratches = [linear_scratch(order) for _ in range(self.threads)]
        draws = self.generator.exponential(size=DRAWS)
        for _ in range(LINEAR_SWEEPS):
            if temperature < LAST_TEMPERATURE:
                temperature = 0.0
            swapped = 0
            for visits in self._visits():
                annealing = Annealing(temperature, draws, int(self.generator.integers(DRAWS)))
                self._side_by_side(propose_linear, (order, pairs, own, annealing, self.proposals), visits, scratches)
                swapped += make_linear(order, pairs, own, visits, self.proposals)
            if self._swept(swapped, settled=temperature == 0.0):
                return
            temperature *= cooling

    def improve(self) -> list[float]:
        """Swaps that lower the loss; returns the objective after each sweep."""
        order, gains, sums = self.order, self.gains, empty_sums(len(self.order.perm))
        scratches = [exact_scratch(order) for _ in range(self.threads)]
        objectives = [exact_objective(order.batch, gains, sums.sums)]
        fill_worth_of_staying(order, gains, sums)
        for _ in range(EXACT_SWEEPS):
            swapped = 0
            for visits in self._visits():
                self._side_by_side(propose_exact, (order, gains, sums, self.proposals), visits, scratches)
                swapped += make_exact(order, gains, sums, visits, scratches[0].entry, self.proposals)
            objectives.append(exact_objective(order.batch, gains, sums.sums))
            if self._swept(swapped, settled=True):
                break
        return objectives

    def _side_by_side(
        self,
        propose: Callable[..., object],
        given: tuple[object, ...],
        visits: NDArray[np.int64],
        scratches: Sequence[object],
    ) -> None:
        """Let each thread look for swaps in its part of the batches, with scratch arrays of its own."""
        parts = np.array_split(visits, self.threads)
        # The list waits for all, and raises what one of them raised.
        list(self.pool.map(lambda part, scratch: propose(*given, part, scratch), parts, scratches))

    def _visits(self) -> Iterator[NDArray[np.int64]]:
        """All batches in random order, some at a time, while there is time."""
        order = self.generator.permutation(self.batches)
        size = min(MOST_VISITS, max(FEWEST_VISITS, -(-self.batches // TURNS)))
        for start in range(0, len(order), size):
            if time.monotonic() > self.deadline:
                self.timed_out = True
                return
            yield order[start : start + size]

    def _swept(self, swapped: int, *, settled: bool) -> bool:
        """Count a sweep; whether it was the last that pays."""
        self.sweeps += 1
        self.swaps += swapped
        return self.timed_out or (settled and swapped < PAYS * len(self.order.perm))
