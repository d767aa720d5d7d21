"""Refine any plan by swaps: an annealed search on pairs by themselves, then a strict one on the loss itself.

The first sets out quickly and can leave a bad order; what it maximises counts two like negatives twice, so the second,
whose objective is the loss on the candidate pairs, takes over. Everything runs in one fixed order from the seed, so
the result is the same however many cores there are.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.compiled import needs_compiling
from gcbs_cli.planners.exact_swaps import exact_objective, exact_swaps, fill_worth_of_staying
from gcbs_cli.planners.keeping_apart import NO_LABELS
from gcbs_cli.planners.linear_swaps import linear_objective, linear_swaps
from gcbs_cli.planners.swap_gains import SwapGains

TARGETS = 3
"""Batches tried for each row: those with most worth to it."""
FIRST_TEMPERATURE = 2.0
COOLING = 0.7
LAST_TEMPERATURE = 0.02
"""Nats; the annealing is over below it."""
LINEAR_SWEEPS = 60
EXACT_SWEEPS = 60
PAYS = 0.002
"""A sweep pays while it swaps this share of the rows."""
VISITS_AT_ONCE = 256
"""Batches between two looks at the clock."""
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
    return not (needs_compiling(linear_swaps) or needs_compiling(exact_swaps))


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
    seed, unless the time limit ends it.
    """
    began = time.monotonic()
    deadline = np.inf if seconds is None else began + seconds
    search = _Search(perm, gains, batch_size, labels, seed, deadline)
    before = search.objective()
    if first_temperature > 0.0:
        search.anneal(first_temperature, cooling)
        if search.objective() < before:
            search = _Search(perm, gains, batch_size, labels, seed, deadline)
    objectives = [before, *search.improve()]
    scale = 1.0 / (2.0 * len(perm))
    return Refinement(
        search.perm,
        search.sweeps,
        search.swaps,
        [value * scale for value in objectives],
        time.monotonic() - began,
        search.timed_out,
    )


class _Search:
    """The state of one search: an order and, row by row, where it is and what it adds."""

    def __init__(
        self,
        perm: NDArray[np.int64],
        gains: SwapGains,
        batch_size: int,
        labels: NDArray[np.int64],
        seed: int,
        deadline: float,
    ) -> None:
        self.perm = perm.copy()
        self.place = np.empty_like(self.perm)
        self.place[self.perm] = np.arange(len(perm))
        self.batch = self.place // batch_size
        self.gains, self.batch_size, self.deadline = gains, batch_size, deadline
        self.labels = np.ascontiguousarray(labels, np.int64)
        self.generator = np.random.default_rng([seed, 0x5A4B])
        self.sums = np.zeros((len(perm), 2))
        self.own = np.zeros(len(perm))
        self.sweeps, self.swaps, self.timed_out = 0, 0, False

    def objective(self) -> float:
        """The exact objective, computed afresh; nats."""
        gains = self.gains
        return exact_objective(self.batch, gains.indptr, gains.indices, gains.shares, gains.penalties, self.sums)

    def anneal(self, temperature: float, cooling: float) -> None:
        """Swaps by the worth of pairs by themselves; uphill and downhill at first."""
        gains, worth = self.gains, self.gains.linear()
        draws = self.generator.exponential(size=DRAWS)
        to_batch, near = np.zeros((2, len(self.perm)))
        for _ in range(LINEAR_SWEEPS):
            if temperature < LAST_TEMPERATURE:
                temperature = 0.0
            # Afresh in each sweep, so that rounding does not add up.
            linear_objective(self.batch, gains.indptr, gains.indices, worth, self.own)
            swapped = 0
            for visits in self._visits():
                swapped += linear_swaps(
                    self.perm,
                    self.place,
                    self.batch,
                    self.own,
                    self.batch_size,
                    gains.indptr,
                    gains.indices,
                    worth,
                    self.labels,
                    visits,
                    TARGETS,
                    temperature,
                    draws,
                    int(self.generator.integers(DRAWS)),
                    to_batch,
                    near,
                )
            if self._swept(swapped, settled=temperature == 0.0):
                return
            temperature *= cooling

    def improve(self) -> list[float]:
        """Swaps that lower the loss; returns the objective after each sweep."""
        gains, rows = self.gains, len(self.perm)
        joins, entry = np.zeros((rows, 3)), np.full(rows, -1)
        objectives = [self.objective()]
        fill_worth_of_staying(
            self.batch, gains.indptr, gains.indices, gains.shares, gains.penalties, self.sums, self.own
        )
        for _ in range(EXACT_SWEEPS):
            swapped = 0
            for visits in self._visits():
                swapped += exact_swaps(
                    self.perm,
                    self.place,
                    self.batch,
                    self.sums,
                    self.own,
                    self.batch_size,
                    gains.indptr,
                    gains.indices,
                    gains.shares,
                    gains.penalties,
                    self.labels,
                    visits,
                    TARGETS,
                    joins,
                    entry,
                )[0]
            objectives.append(self.objective())
            if self._swept(swapped, settled=True):
                break
        return objectives

    def _visits(self) -> Iterator[NDArray[np.int64]]:
        order = self.generator.permutation(-(-len(self.perm) // self.batch_size))
        for start in range(0, len(order), VISITS_AT_ONCE):
            if time.monotonic() > self.deadline:
                self.timed_out = True
                return
            yield order[start : start + VISITS_AT_ONCE]

    def _swept(self, swapped: int, *, settled: bool) -> bool:
        """Count a sweep; whether it was the last that pays."""
        self.sweeps += 1
        self.swaps += swapped
        return self.timed_out or (settled and swapped < PAYS * len(self.perm))
