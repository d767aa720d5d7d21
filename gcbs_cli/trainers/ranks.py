"""What the ranks of torch.distributed tell each other; without it there is one."""

import os
import weakref
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch.distributed

from gcbs_cli.system.errors import BadInput

PATIENCE = timedelta(days=1)
"""How long ranks wait for the one that plans: the usual ten minutes would end a run with a large plan."""

_patient: Callable[[], Any] = lambda: None  # noqa: E731


def is_distributed() -> bool:
    """Whether torch.distributed runs."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def rank_and_world() -> tuple[int, int]:
    """This rank and the number of ranks."""
    if not is_distributed():
        return 0, 1
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def launched_rank(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and number of ranks where they are not given: those of torch.distributed, else the launcher's."""
    own_rank, ranks = rank_and_world()
    if not is_distributed():
        try:
            own_rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        except ValueError as error:
            raise BadInput(f"RANK, WORLD_SIZE: {error}") from None
    if world_size is None:
        world_size = ranks
    if rank is None:
        rank = own_rank if world_size > 1 else 0
    if not 0 <= rank < world_size:
        raise BadInput(f"rank {rank}: expected between 0 and {world_size - 1}, for a world size of {world_size}")
    return rank, world_size


def patient_group() -> Any:
    """The group of all ranks that has patience, on the CPU, if there are ranks; its first use is on all at once.

    Nothing here keeps it: a group that outlives destroy_process_group may abort the process at exit.
    """
    global _patient
    group = _patient()
    if group is None and is_distributed():
        group = torch.distributed.new_group(backend="gloo", timeout=PATIENCE)
        _patient = weakref.ref(group)
    return group


def gather_values(value: Any) -> list[Any]:
    """The value of each rank; call it on every rank."""
    values = [value] * rank_and_world()[1]
    if is_distributed():
        torch.distributed.all_gather_object(values, value, group=patient_group())
    return values


def gather_to_first(value: Any) -> list[Any]:
    """The value of each rank on rank 0, this rank's own on the others; call it on every rank."""
    rank, world_size = rank_and_world()
    values = [value] * world_size
    if is_distributed():
        torch.distributed.gather_object(value, None if rank else values, group=patient_group())
    return values


def share(make: Callable[[], Any]) -> Any:
    """Return rank 0's result on every rank, and raise its error on every rank, so that none waits for ever."""
    outcome: list[Any] = [None, None]
    if rank_and_world()[0] == 0:
        try:
            outcome[0] = make()
        except Exception as error:
            outcome[1] = error
    if is_distributed():
        torch.distributed.broadcast_object_list(outcome, src=0, group=patient_group())
    result, failure = outcome
    if failure is not None:
        raise failure
    return result
