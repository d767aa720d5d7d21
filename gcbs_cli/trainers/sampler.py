"""`PlannedBatchSampler`: the plan as the `batch_sampler` of a PyTorch DataLoader."""

import os
import sys
import warnings
from collections.abc import Iterator, Sized
from dataclasses import asdict
from enum import StrEnum
from itertools import islice
from typing import Any

import numpy as np
import torch.distributed
from numpy.typing import NDArray
from torch.utils.data import BatchSampler

from gcbs_cli.plan_file.check import Plan
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.accelerate_stack import find_accelerate
from gcbs_cli.trainers.plan_source import PlanSource, PlanWarning
from gcbs_cli.trainers.rank_sharding import RankSharding


class Yields(StrEnum):
    """What a sampler yields if there are several ranks."""

    SHARE = "share"
    """Only this rank's share: the sampler itself deals the batches to ranks."""
    BATCHES = "batches"
    """Every planned batch, whole: accelerate deals them to ranks, or slices each (split_batches=True)."""
    SLICES = "slices"
    """Every rank's slice of every batch in turn: accelerate deals the slices to ranks (the loss gathers)."""


class PlannedBatchSampler(BatchSampler):
    """Yields the planned batches as lists of row numbers, for `DataLoader(dataset, batch_sampler=...)`.

    plan: a path, a name pattern (`perm-{epoch}.npy`), a permutation, or the result of `gcbs_cli.plan`.
    batch_size: k, the pairs of one loss; None takes the manifest's.
    drop_last: leave out the short last batch; None takes the manifest's.
    shuffle_batches: train on the same batches in another order each epoch, the short one last.
    rank, world_size: None asks torch.distributed, then the launcher's environment, then assumes one rank.
    gather: the loss gathers from all ranks, so each rank takes k/W rows of every batch; None takes the manifest's.
    yields: see `Yields`. fill_last_step: see `RankSharding`. dataset: must have as many rows as the plan.

    The attribute `plan` is the plan of this epoch.
    Raises BadInput for a plan that was damaged or edited, or that has another length or batch size.
    """

    def __init__(
        self,
        plan: Any,
        batch_size: int | None = None,
        drop_last: bool | None = None,
        shuffle_batches: bool = False,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        gather: bool | None = None,
        yields: str = "share",
        fill_last_step: bool = False,
        dataset: Sized | None = None,
    ) -> None:
        self.rank, self.world_size = _place_among_ranks(rank, world_size)
        self.yields = Yields(yields)
        self._batch_size, self._gather, self._drop_last = batch_size, gather, drop_last
        self._fill_last_step = fill_last_step
        self.shuffle_batches, self.seed = shuffle_batches, seed
        self.epoch = self._next = self._start = 0
        self._source = PlanSource(plan, None if dataset is None else len(dataset))
        self._take(self._source.for_epoch(0))
        list_rows = self.loss_batch_size // (self.world_size if self.sharding.gather and not self._split else 1)
        # Accelerate and Lightning look for `set_epoch` in the `.sampler` of a batch sampler.
        super().__init__(self, list_rows, self.sharding.drop_last)  # type: ignore[arg-type]

    @property
    def loss_batch_size(self) -> int:
        """k, the pairs of one loss; `batch_size` is the length of a yielded list."""
        return self.sharding.batch_size

    def __len__(self) -> int:
        """Number of lists in a whole epoch."""
        return self.sharding.steps * self._lists_a_step

    def __iter__(self) -> Iterator[list[int]]:
        # A generator starts at the first batch, so that a plan made at the start of the epoch is still in time.
        self._refuse_wrong_sharding()
        start, self._start = self._start, 0
        self._next = start
        for batch in islice(self._lists(), start, None):
            self._next += 1
            yield batch

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch's plan (from a name pattern) and its order of batches; call it on every rank.

        Raises BadInput if the ranks do not find the same plan, or if a new plan has another number of rows.
        """
        changed, self.epoch = epoch != self.epoch, epoch
        plan = self._source.for_epoch(epoch)
        if plan is not self.plan:
            self._take(plan)
        if changed:
            self._start = self._next = 0
            self._agree()

    def start_at(self, epoch: int, step: int) -> None:
        """Start the next iteration at a step of an epoch, to resume a run; a step counts once for all ranks."""
        self.set_epoch(epoch)
        self._start = self._next = step * self._lists_a_step

    def use_plan(self, plan: Any) -> None:
        """Train on another permutation of the same rows from now on; `EpochPlanner` does so each epoch.

        Raises BadInput if batches of this epoch were already handed out, because rows would be missed or repeated.
        """
        if 0 < self._next < len(self):
            raise BadInput(
                f"plan: {self._next} batches of epoch {self.epoch} were already handed out; replace it between epochs"
            )
        self._take(self._source.replace(plan))

    def step_rows(self, step: int, rank: int | None = None) -> list[NDArray[np.int64]]:
        """Return the rows of each loss at a step of this epoch: one batch if the loss gathers, else one per rank.

        rank: only this rank's batch (the whole batch if the loss gathers).
        """
        shares = next(islice(self._deal(), step, None))
        if self.sharding.gather:
            return [self.plan.perm[_joined(shares)]]
        return [self.plan.perm[share] for share in (shares if rank is None else [shares[rank]])]

    def left_out(self) -> NDArray[np.int64]:
        """Return the rows that this epoch does not train on, ascending; `RankSharding` says why there may be some."""
        trained = [self.plan.perm[share] for shares in self._deal() for share in shares]
        return np.setdiff1d(self.plan.perm, np.concatenate(trained))

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the place in the epoch. step: number of lists trained on; needed if DataLoader workers fetch ahead."""
        return {"epoch": self.epoch, "step": self._next if step is None else step, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken: the next iteration yields the rest of that epoch.

        Raises BadInput if the plan, batch size, ranks, seed or shuffling have changed.
        """
        self.set_epoch(int(state["epoch"]))
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise BadInput(
                    f"cannot resume: {name.replace('_', ' ')} was {state.get(name)} and is {value}; "
                    "rows would be missed or repeated"
                )
        self._start = self._next = int(state["step"])

    def _identity(self) -> dict[str, Any]:
        chosen = {"yields": self.yields.value, "seed": self.seed, "shuffle_batches": self.shuffle_batches}
        return {"plan_hash": self.plan.hash, **asdict(self.sharding), **chosen}

    def _take(self, plan: Plan) -> None:
        """Train on a plan, from its first batch on. Raises BadInput unless it was made for batches of this size."""
        size, gather = self._batch_size, bool(plan.gather) if self._gather is None else self._gather
        if size is None:
            size = plan.batch_size
        if size is None:
            raise BadInput(f"{plan.name}: no manifest names its batch size; give batch_size")
        if plan.batch_size not in (None, size):
            raise BadInput(
                f"{plan.name}: planned for batches of {plan.batch_size}, asked for {size}; plan again with -k {size}"
            )
        if plan.world_size is not None and (plan.world_size, bool(plan.gather)) != (self.world_size, gather):
            planned = f"{plan.world_size} ranks {'with' if plan.gather else 'without'} gathering"
            found = f"{self.world_size} ranks {'with' if gather else 'without'} gathering"
            warnings.warn(f"{plan.name}: planned for {planned}, used with {found}", PlanWarning, stacklevel=3)
        self.sharding = RankSharding(
            rows=plan.rows,
            batch_size=size,
            world_size=self.world_size,
            gather=gather and self.world_size > 1,
            drop_last=bool(plan.drop_last) if self._drop_last is None else self._drop_last,
            fill_last_step=self._fill_last_step,
            full_only=self.yields is not Yields.SHARE,
        )
        self.plan, self._batch_size = plan, size
        self._next = self._start = 0

    @property
    def _split(self) -> bool:
        """Whether accelerate slices the batches that this sampler yields whole."""
        return self.sharding.gather and self.yields is Yields.BATCHES

    @property
    def _lists_a_step(self) -> int:
        return 1 if self.yields is Yields.SHARE or self._split else self.world_size

    def _deal(self) -> Iterator[list[slice]]:
        return self.sharding.deal(shuffle=self.shuffle_batches, seed=self.seed, epoch=self.epoch)

    def _lists(self) -> Iterator[list[int]]:
        perm = self.plan.perm
        for shares in self._deal():
            if self.yields is Yields.SHARE:
                yield perm[shares[self.rank]].tolist()
            else:
                yield from (perm[share].tolist() for share in ([_joined(shares)] if self._split else shares))

    def _agree(self) -> None:
        """Refuse different plans on different ranks: a file may appear between the looks of two of them."""
        if self.world_size == 1 or not is_distributed():
            return
        found: list[str] = [""] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(found, self.plan.hash)
        if len(set(found)) > 1:
            raise BadInput(
                f"epoch {self.epoch}: the ranks found different plans; write the plan before the epoch starts"
            )

    def _refuse_wrong_sharding(self) -> None:
        """Refuse settings of accelerate that would split batches; it does not tell them to a batch sampler."""
        above = find_accelerate(sys._getframe(1))
        if above is None or above.num_processes == 1:
            return
        if self.yields is Yields.SHARE and self.world_size > 1:
            raise BadInput(
                "accelerate would deal out again what this sampler has dealt already; "
                "make the loader with gcbs_cli.trainers.accelerate.planned_loader"
            )
        if above.num_processes != self.world_size:
            raise BadInput(
                f"accelerate deals to {above.num_processes} ranks, but the sampler has world_size {self.world_size}"
            )
        if above.skips and above.dispatches and not above.split_batches:
            raise BadInput(
                "with dispatch_batches=True, accelerate skips single batches although a step takes one per rank; "
                "resume with gcbs_cli.trainers.accelerate.start_at, or without dispatch_batches"
            )
        if above.split_batches != self._split:
            raise BadInput(
                "split_batches=True would split each planned batch between ranks; leave it out, or gather in the loss"
                if above.split_batches
                else "accelerate must split the planned batches between ranks, but has split_batches=False"
            )


def _joined(shares: list[slice]) -> slice:
    """The batch of which these are the shares."""
    return slice(shares[0].start, shares[-1].stop)


def is_distributed() -> bool:
    """Whether torch.distributed runs."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _place_among_ranks(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if is_distributed():
        found = torch.distributed.get_rank(), torch.distributed.get_world_size()
    elif "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        found = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    else:
        found = 0, 1
    if world_size is None:
        world_size = found[1]
    if rank is None:
        rank = found[0] if world_size > 1 else 0
    if not 0 <= rank < world_size:
        raise BadInput(f"rank {rank}: expected between 0 and {world_size - 1}, for a world size of {world_size}")
    return rank, world_size


def sampler_of(planned: Any) -> PlannedBatchSampler:
    """Return a sampler, or the sampler of an object that has one (`PlannedBatches`, `PlannedDataModule`)."""
    sampler = planned if isinstance(planned, PlannedBatchSampler) else planned.sampler
    if not isinstance(sampler, PlannedBatchSampler):
        raise BadInput(f"{type(planned).__name__} has no sampler yet; training creates it")
    return sampler
