"""Feed planned batches to trainers: one sampler that every framework takes, and a module for each framework.

    from gcbs_cli.trainers import PlannedBatchSampler

    loader = DataLoader(dataset, batch_sampler=PlannedBatchSampler("perm.npy", dataset=dataset))

`gcbs_cli.plan_batches` and `gcbs_cli.planned` do the rest. A framework is imported only by its own module.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gcbs_cli.trainers.plan_source import PlanWarning, interleave_batches
    from gcbs_cli.trainers.sampler import PlannedBatchSampler

__all__ = ["PlanWarning", "PlannedBatchSampler", "interleave_batches"]

_MODULES = {"PlanWarning": "plan_source", "PlannedBatchSampler": "sampler", "interleave_batches": "plan_source"}


def __getattr__(name: str) -> Any:
    """Import a module when one of its names is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
