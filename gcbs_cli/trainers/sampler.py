"""`PlannedBatchSampler`: the plan as the `batch_sampler` of a PyTorch DataLoader."""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sized
from dataclasses import asdict, dataclass
from itertools import islice
from math import ceil
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler

from gcbs_cli.plan_file.plans import LoadedPlan
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.randomness import Stream
from gcbs_cli.trainers.plan_source import PlanWarning, plan_for
from gcbs_cli.trainers.ranks import gather_values, launched_rank, rank_and_world


@dataclass(frozen=True)
class RankSharding:
    """How `rows` rows in batches of `batch_size` (k) go to `world_size` (W) ranks.

    gather: the loss gathers from all ranks, so each rank holds k/W rows of every batch; otherwise each rank takes whole
    batches, W batches per step. All ranks get the same number of steps, so some rows may be left out: without
    gathering, up to W−1 batches that do not fill a step; with gathering, the rows by which the short last batch exceeds
    a multiple of W. seed: of the order of batches, a new one each epoch if they are shuffled.
    """

    rows: int
    batch_size: int
    world_size: int
    gather: bool
    drop_last: bool
    seed: int
    shuffle_batches: bool

    def __post_init__(self) -> None:
        if not isinstance(self.batch_size, int | np.integer) or self.batch_size < 1:
            raise BadInput(f"batch_size {self.batch_size!r}: expected a whole number, at least 1")
        if self.gather and self.batch_size % self.world_size:
            raise BadInput(
                f"batch_size {self.batch_size}: not divisible by world_size {self.world_size}; "
                "if the loss gathers, each rank takes k/W rows of every batch"
            )
        if self.steps == 0 or self.rows < self.batch_size:
            raise BadInput(
                f"batch_size {self.batch_size}: {self.rows:,} rows are too few for {self.world_size} ranks; "
                "use smaller batches or fewer ranks"
            )

    @property
    def _batched_rows(self) -> int:
        """Rows in batches, without those that are left out of the short last one."""
        if self.drop_last:
            return self.rows - self.rows % self.batch_size
        if self.gather:
            return self.rows - self.rows % self.world_size
        return self.rows

    @property
    def _batches_per_step(self) -> int:
        return 1 if self.gather else self.world_size

    @property
    def steps(self) -> int:
        """Number of steps in an epoch, the same on every rank."""
        return ceil(self._batched_rows / self.batch_size) // self._batches_per_step

    def deal(self, epoch: int) -> Iterator[list[slice]]:
        """Yield for each step the share of each rank, as positions in the permutation; the short batch comes last.

        The order of the batches is the same on every rank and in every run. If a batch must be left out, shuffling
        leaves out a different one each epoch.
        """
        full = self.rows // self.batch_size
        numbers = np.arange(ceil(self._batched_rows / self.batch_size))
        if self.shuffle_batches:
            Stream.BATCH_ORDER.generator(self.seed, epoch).shuffle(numbers[:full])
        batches_per_step = self._batches_per_step
        for step in numbers[: self.steps * batches_per_step].reshape(-1, batches_per_step).tolist():
            yield [share for number in step for share in self._shares(number)]

    def _shares(self, number: int) -> list[slice]:
        """The whole of a batch, or each rank's share of it if the loss gathers."""
        count = self.world_size if self.gather else 1
        start = number * self.batch_size
        size = min(self.batch_size, self._batched_rows - start) // count
        return [slice(start + share * size, start + (share + 1) * size) for share in range(count)]


Replan = Callable[["PlannedBatchSampler", int, Ints], Ints]
"""Takes a sampler, the next step and the rows that are left; returns these in a new order."""


class PlannedBatchSampler(BatchSampler):
    """Yields the planned batches as lists of row numbers, for `DataLoader(dataset, batch_sampler=...)`.

    The sampler itself deals the batches to ranks: it yields this rank's share. So leave its loader out of accelerate's
    `prepare`, which would deal them a second time and is stopped.

    Args:
        plan: The path of a plan, a name pattern (`perm-{epoch}.npy`), a permutation, or the result of `gcbs_cli.plan`.
        batch_size: k, the pairs of one loss; None takes the manifest's.
        drop_last: Leave out the short last batch; None takes the manifest's.
        shuffle_batches: Train on the same batches in another order each epoch, the short one last.
        seed: Decides the order of the batches.
        rank: This process; None asks torch.distributed, then the launcher's environment, then assumes one rank.
        world_size: Number of ranks; None likewise.
        gather: The loss gathers from all ranks, so each rank takes k/W rows of every batch; None takes the manifest's.
        dataset: Must have as many rows as the plan, in every epoch.

    Attributes:
        plan: This epoch's plan.
        replan: Makes a new plan when an epoch begins, and every `every` steps of what is left; `plan_batches` sets it.

    Raises:
        BadInput: If the plan was damaged or edited, or has another length or batch size.
    """

    replan: Replan | None = None
    every: int | None = None
    on_batch: Callable[[int, Ints], None] | None = None
    """Called with the step and this rank's rows before these are handed out."""

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
        dataset: Sized | None = None,
    ) -> None:
        self.rank, self.world_size = launched_rank(rank, world_size)
        self._batch_size = batch_size
        self._gather = gather
        self._drop_last = drop_last
        self.shuffle_batches = shuffle_batches
        self.seed = seed
        self.epoch = self.step = self._start = 0
        self.planned_at = -1
        self._dataset = dataset
        self._path = plan if isinstance(plan, str | os.PathLike) else None
        self._begin_plan(plan_for(0, plan, None if dataset is None else len(dataset)))
        self._compare_ranks()
        self.batch_size = self.loss_batch_size // (self.world_size if self.sharding.gather else 1)
        self.drop_last = self.sharding.drop_last

    @classmethod
    def factory(cls, plan: Any, **settings: Any) -> Callable[..., "PlannedBatchSampler"]:
        """Return what sentence-transformers takes as `args.batch_sampler`, for one data set alone in one process.

        Args:
            plan: As above.
            **settings: As above; data set, batch size, drop_last and seed are the trainer's.
        """
        datasets: list[Sized] = []

        def make(dataset: Sized, batch_size: int, drop_last: bool, seed: int, **_: Any) -> PlannedBatchSampler:
            datasets.append(dataset)
            if dataset is not datasets[0]:
                raise BadInput("batch_sampler: one plan for several data sets; use gcbs_cli.plan_batches")
            if rank_and_world()[1] > 1:
                raise BadInput("batch_sampler: several ranks would split planned batches; use gcbs_cli.plan_batches")
            return cls(plan, batch_size, drop_last, dataset=dataset, **{"seed": seed, **settings})

        return make

    @property
    def loss_batch_size(self) -> int:
        """k, the pairs of one loss; `batch_size` is the length of a yielded list."""
        return self.sharding.batch_size

    @property
    def sampler(self) -> Any:  # type: ignore[override]
        """Itself, for Lightning's `set_epoch`; raises BadInput for accelerate, which looks here before it deals."""
        if self.world_size > 1 and sys._getframe(1).f_globals["__name__"].startswith("accelerate."):
            raise BadInput("accelerate's prepare: would deal planned batches a second time; leave this loader out")
        return self

    def __len__(self) -> int:
        """Number of lists in a whole epoch."""
        return self.sharding.steps

    def __iter__(self) -> Iterator[list[int]]:
        # A generator starts at the first batch, so that the model and the epoch of a resumed run are in place.
        if self._dataset is not None and len(self._dataset) != self.plan.rows:
            change = f"data set: found {len(self._dataset):,} rows, planned for {self.plan.rows:,}"
            raise BadInput(f"{change}; where rows come or go, call plan_batches or planned anew")
        start = self._start
        self._start = 0
        for step, shares in enumerate(self.sharding.deal(self.epoch)):
            if step >= start:
                self._plan_rest(step)
                self.step = step + 1
                rows = self.plan.perm[shares[self.rank]]
                if self.on_batch is not None:
                    self.on_batch(step, rows)
                yield rows.tolist()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch's plan (from a name pattern) and its order of batches; call it on every rank.

        Raises:
            BadInput: If the ranks do not find the same plan, or if a new plan has another number of rows.
        """
        changed = epoch != self.epoch
        self.epoch = epoch
        plan = plan_for(epoch, self._path, self.plan.rows, self.plan)
        if plan is not self.plan:
            self._begin_plan(plan)
        if changed:
            self._start = self.step = 0
            self.planned_at = -1
            self._compare_ranks()

    def step_rows(self, step: int) -> Ints:
        """Return the rows of this rank's loss at a step of this epoch: the whole batch, if the loss gathers."""
        shares = next(islice(self.sharding.deal(self.epoch), step, None))
        if not self.sharding.gather:
            return self.plan.perm[shares[self.rank]]
        return self.plan.perm[shares[0].start : shares[-1].stop]

    def left_out(self) -> Ints:
        """Return the rows that this epoch does not train on, ascending; `RankSharding` says why there may be some."""
        return np.sort(self.plan.perm[self._places_after(self.sharding.steps)])

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """Return the place in the epoch, and a plan made in this run.

        Args:
            step: Lists trained on, where the loader's workers run ahead of them; None: lists handed out.
        """
        state = self._identity() | {"epoch": self.epoch, "step": step, "planned_at": self.planned_at}
        if step is None:
            state["step"] = self.step
        if self.replan is not None:
            state["perm"] = torch.from_numpy(self.plan.perm).int()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where `state_dict` was taken: the next iteration yields the rest of that epoch.

        Raises:
            BadInput: If the plan, batch size, ranks, seed or shuffling have changed, or it is no state.
        """
        for name, least in (("epoch", 0), ("step", 0), ("planned_at", -1)):
            number = state.get(name)
            if not isinstance(number, Integral) or number < least:
                raise BadInput(f"cannot resume: found {name} {number!r}; give a state that state_dict returned")
        self.set_epoch(int(state["epoch"]))
        if "perm" in state:
            self.use_order(state["perm"], self.epoch, int(state["planned_at"]))
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise BadInput(
                    f"cannot resume: {name.replace('_', ' ')} was {state.get(name)} and is now {value}; "
                    "rows would be missed or repeated"
                )
        step = int(state["step"])
        if step >= len(self):
            self.set_epoch(self.epoch + 1)
            return
        self._start = self.step = step

    def _compare_ranks(self) -> None:
        """Raises BadInput where ranks differ in the plan, as where a file appears between their looks, or the seed."""
        if self.world_size == rank_and_world()[1]:
            identity = self._identity()
            others = gather_values(identity)
            different = [name for name in identity if any(other[name] != identity[name] for other in others)]
            if different:
                raise BadInput(
                    f"epoch {self.epoch}: the ranks differ in {', '.join(different)}; give all the same, and write a "
                    "plan before its epoch starts"
                )

    def _identity(self) -> dict[str, Any]:
        return {"plan_hash": self.plan.hash, **asdict(self.sharding)}

    def _begin_plan(self, plan: LoadedPlan) -> None:
        """Train on a plan, from its first batch on. Raises BadInput unless it was made for batches of this size."""
        gather = plan.gather if self._gather is None else self._gather
        size = plan.batch_size if self._batch_size is None else self._batch_size
        if size is None:
            raise BadInput(f"{plan.name}: no manifest says its batch size; give batch_size")
        if plan.batch_size not in (None, size):
            raise BadInput(
                f"{plan.name}: planned for batches of {plan.batch_size}, asked for {size}; plan again with -k {size}"
            )
        if plan.world_size is not None and (plan.world_size, plan.gather) != (self.world_size, gather):
            warnings.warn(
                f"{plan.name}: planned for {plan.world_size} ranks (gather: {plan.gather}), "
                f"used with {self.world_size} ranks (gather: {gather})",
                PlanWarning,
                stacklevel=3,
            )
        self.sharding = RankSharding(
            rows=plan.rows,
            batch_size=size,
            world_size=self.world_size,
            gather=gather and self.world_size > 1,
            drop_last=plan.drop_last if self._drop_last is None else self._drop_last,
            seed=self.seed,
            shuffle_batches=self.shuffle_batches,
        )
        self.plan = plan
        self._batch_size = size
        self.step = self._start = 0

    def use_order(self, perm: Any, epoch: int, step: int) -> None:
        """Train an epoch by a permutation made at one of its steps; no file or pattern counts from now on."""
        self.set_epoch(epoch)
        self.plan = plan_for(epoch, perm, self.plan.rows)
        self._path = None
        self.planned_at = step

    def _places_after(self, step: int) -> Ints:
        """The places of the permutation that no step before this one takes, ascending."""
        free = np.ones(len(self.plan.perm), np.bool_)
        for shares in islice(self.sharding.deal(self.epoch), step):
            for share in shares:
                free[share] = False
        return np.flatnonzero(free)

    def _plan_rest(self, step: int) -> None:
        """Plan what is left of the epoch, where a plan is due at this step and this epoch's is not from it or later."""
        due = step % (self.every or len(self)) == 0
        if self.replan is None or not due or step <= self.planned_at:
            return
        places = self._places_after(step)
        perm = self.plan.perm.copy()
        if len(places) < 2 * self.loss_batch_size and step > 0:
            return
        perm[places] = self.replan(self, step, perm[places])
        self.use_order(perm, self.epoch, step)
