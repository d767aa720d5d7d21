"""Read plans for trainers from an array, a file, or a name pattern with a file per epoch, and check them."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from gcbs_cli.plan_file.permutation import verify_permutation
from gcbs_cli.plan_file.plans import LoadedPlan, load_plan
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput

_EPOCH_FIELD = "{epoch"
"""The part of a path that makes it a name pattern: `perm-{epoch}.npy`, `plans/{epoch:03d}.npy`."""


class PlanWarning(UserWarning):
    """Warns that a plan is used otherwise than it was made for."""


def plan_for(epoch: int, plan: Any, rows: int | None = None, last: LoadedPlan | None = None) -> LoadedPlan:
    """The plan of an epoch; it is `last`, that of the epoch before, unless a name pattern has a newer one.

    plan: a permutation (array, tensor, list or the result of `gcbs_cli.plan`), the path of a plan, or a pattern such
    as `perm-{epoch}.npy`. A path is read once and gives one plan for all epochs. A pattern gives the newest plan for
    this epoch or an earlier one, so that a run keeps the old plan until there is a new one.
    Raises BadInput if there is none, or if it has another number of rows.
    """
    if not isinstance(plan, str | os.PathLike):
        return last or _from_array(plan, rows)
    path = os.fspath(plan)
    if _EPOCH_FIELD in path:
        path = _newest(path, epoch)
        if last is not None and last.name != path:
            last = None
    return last or load_plan(path, rows)


def interleave_batches(plan: Any, batch_size: int, world_size: int) -> Ints:
    """Return the order that gives each rank planned batches if a reader deals rows to W ranks in turn.

    Such a reader gives rows j, j + W, j + 2W, … to one rank, so W batches are interleaved row by row. The rows after
    the last W full batches stay as planned; the reader would split them, so leave them out when writing.

    Args:
        plan: The path of a plan, a permutation, or the result of `gcbs_cli.plan`.
        batch_size: k, the pairs of one loss.
        world_size: W, the number of ranks.

    Returns:
        (N,) int64 row numbers.

    Raises:
        BadInput: If the plan is not a permutation, or has fewer than W full batches.
    """
    perm = plan_for(0, plan).perm
    rows = len(perm) - len(perm) % (batch_size * world_size)
    if rows == 0:
        raise BadInput(f"batch_size {batch_size}: {len(perm):,} rows make no full batch for each of {world_size} ranks")
    steps = perm[:rows].reshape(-1, world_size, batch_size)
    return np.concatenate([steps.mT.ravel(), perm[rows:]])


def _from_array(plan: Any, rows: int | None) -> LoadedPlan:
    """Make a plan from a PlanResult, an array, a tensor or a list."""
    settings = getattr(plan, "settings", None)
    order = getattr(plan, "perm", plan)
    if hasattr(order, "detach"):
        order = order.detach().cpu().numpy()
    if not isinstance(order, np.ndarray | list | tuple | range):
        raise BadInput(
            f"plan: found {type(order).__name__}, expected a permutation or the path of one; Lightning passes its own "
            "sampler here unless Trainer(use_distributed_sampler=False)"
        )
    array = np.asarray(order)
    verify_permutation(array, len(array) if rows is None else rows, "plan")
    perm = array.astype(np.int64)
    if settings is None:
        return LoadedPlan(perm, "plan")
    return LoadedPlan(perm, "plan", settings.batch_size, False, settings.world_size, settings.gather)


def _newest(pattern: str, epoch: int) -> str:
    try:
        paths = [str(Path(pattern.format(epoch=number))) for number in range(epoch, -1, -1)]
    except (KeyError, IndexError, ValueError) as error:
        raise BadInput(f"{pattern}: not a name pattern; use one such as perm-{{epoch}}.npy") from error
    for path in paths:
        if os.path.exists(path):
            return path
    raise BadInput(f"{pattern}: no plan for epoch {epoch} or an earlier one, not even {paths[-1]}; make a plan first")
