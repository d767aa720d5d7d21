"""Decide which planned batches an epoch trains on, in which order, and what each rank gets of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gcbs_cli.system.errors import BadInput

_ORDER_STREAM = 0xBA7C4
"""Separates the draws of the batch order from other uses of the same seed."""


@dataclass(frozen=True)
class RankSharding:
    """How `rows` rows in batches of `batch_size` (k) go to `world_size` (W) ranks.

    gather: the loss gathers from all ranks, so each rank holds k/W rows of every batch; otherwise each rank takes whole
    batches, W batches per step. All ranks get the same number of steps, so some rows may be left out: without
    gathering, up to W−1 batches that do not fill a step; with gathering, the rows by which the short last batch exceeds
    a multiple of W.
    """

    rows: int
    batch_size: int
    world_size: int = 1
    gather: bool = False
    drop_last: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise BadInput(f"batch_size {self.batch_size}: expected at least 1")
        if self.gather and self.batch_size % self.world_size:
            raise BadInput(
                f"batch_size {self.batch_size}: not divisible by world_size {self.world_size}; "
                "if the loss gathers, each rank takes k/W rows of every batch"
            )
        if self.steps == 0:
            raise BadInput(
                f"batch_size {self.batch_size}: {self.rows:,} rows make no step of {self.world_size} ranks; "
                "use smaller batches or fewer ranks"
            )

    @property
    def full(self) -> int:
        """Number of batches of k rows in the plan."""
        return self.rows // self.batch_size

    @property
    def _short_rows(self) -> int:
        """Ints of the short last batch that are trained on."""
        if self.drop_last:
            return 0
        rest = self.rows % self.batch_size
        return rest - rest % self.world_size if self.gather else rest

    @property
    def steps(self) -> int:
        """Number of steps in an epoch, the same on every rank."""
        count = self.full + (self._short_rows > 0)
        return count if self.gather else count // self.world_size

    def deal(self, *, shuffle: bool, seed: int, epoch: int) -> Iterator[list[slice]]:
        """Yield for each step what each rank gets, as positions in the permutation; the short batch comes last.

        The order of the batches is the same on every rank and in every run. If a batch must be left out, shuffling
        leaves out a different one each epoch.
        """
        numbers = np.arange(self.full)
        if shuffle:
            numbers = np.random.default_rng([seed, _ORDER_STREAM, epoch]).permutation(numbers)
        if self._short_rows:
            numbers = np.append(numbers, self.full)
        each = 1 if self.gather else self.world_size
        for step in numbers[: self.steps * each].reshape(-1, each).tolist():
            yield [share for number in step for share in self._shares(number)]

    def _shares(self, number: int) -> list[slice]:
        """The whole of a batch, or each rank's share of it if the loss gathers."""
        start, parts = number * self.batch_size, self.world_size if self.gather else 1
        size = (self._short_rows if number == self.full else self.batch_size) // parts
        return [slice(start + part * size, start + (part + 1) * size) for part in range(parts)]
