"""Which planned batches an epoch trains on, in which order, and what each rank holds of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.errors import BadInput

_ORDER_STREAM = 0xBA7C4
"""Keeps the draws of the batch order apart from other uses of the same seed."""


@dataclass(frozen=True)
class Dealing:
    """How `rows` rows in batches of `batch_size` (k) go to `world_size` (W) ranks.

    gather: the loss gathers over ranks, so each rank holds k/W rows of every batch; else each rank takes whole batches,
    W batches a step. All ranks get the same number of steps, so there may be a tail: without gathering, up to W−1
    batches that do not fill a step are left out (`fill_last_step` repeats the first batches of the epoch instead); with
    gathering, the short last batch is cut to a multiple of W. full_only: leave out the short batch wherever there is
    more than one rank, for frameworks that would fill it with other rows.
    """

    rows: int
    batch_size: int
    world_size: int = 1
    gather: bool = False
    drop_last: bool = False
    fill_last_step: bool = False
    full_only: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BadInput(f"batch_size {self.batch_size}: expected at least 1")
        if self.world_size < 1:
            raise BadInput(f"world_size {self.world_size}: expected at least 1")
        if self.gather and self.batch_size % self.world_size:
            raise BadInput(
                f"batch_size {self.batch_size}: not divisible by world_size {self.world_size}; "
                "where the loss gathers, each rank takes k/W rows of every batch"
            )
        if self.steps == 0:
            raise BadInput(
                f"batch_size {self.batch_size}: {self.rows:,} rows make no step for {self.world_size} ranks; "
                "use smaller batches or fewer ranks"
            )

    @property
    def full(self) -> int:
        """Batches of k rows in the plan."""
        return self.rows // self.batch_size

    @property
    def _short_rows(self) -> int:
        """Rows of the short last batch that are trained on."""
        if self.drop_last or (self.full_only and self.world_size > 1):
            return 0
        rest = self.rows % self.batch_size
        return rest - rest % self.world_size if self.gather else rest

    @property
    def steps(self) -> int:
        """Steps of an epoch, the same on every rank."""
        count = self.full + (self._short_rows > 0)
        if self.gather:
            return count
        return -(-count // self.world_size) if self.fill_last_step else count // self.world_size

    @property
    def batches(self) -> int:
        """Batches of an epoch over all ranks, repeated ones included."""
        return self.steps if self.gather else self.steps * self.world_size

    def order(self, *, shuffle: bool, seed: int, epoch: int) -> NDArray[np.int64]:
        """(batches,) the numbers of the batches in the order of training; the short batch comes last.

        The same on every rank and run. Where a batch has to be left out, shuffling leaves out another one each epoch.
        """
        numbers = np.arange(self.full, dtype=np.int64)
        if shuffle:
            numbers = np.random.default_rng([seed, _ORDER_STREAM, epoch]).permutation(numbers)
        if self._short_rows:
            numbers = np.append(numbers, self.full)
        return np.resize(numbers, self.batches)

    def places(self, number: int) -> slice:
        """Where in the permutation a batch lies."""
        start = number * self.batch_size
        return slice(start, start + (self._short_rows if number == self.full else self.batch_size))

    def slice_of(self, number: int, rank: int) -> slice:
        """Where in the permutation a rank's part of a batch lies, when the loss gathers: parts in rank order."""
        batch = self.places(number)
        size = (batch.stop - batch.start) // self.world_size
        return slice(batch.start + rank * size, batch.start + (rank + 1) * size)
