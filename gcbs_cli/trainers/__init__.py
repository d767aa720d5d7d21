"""Feed planned batches to trainers: one sampler that every framework takes, and a module for each framework.

    from gcbs_cli.trainers import PlannedBatchSampler

    loader = DataLoader(dataset, batch_sampler=PlannedBatchSampler("perm.npy", dataset=dataset))

`gcbs_cli.plan_batches` and `gcbs_cli.planned` do the rest. A framework is imported only by its own module.
"""

from typing import TYPE_CHECKING, Any

from gcbs_cli.trainers.plan_source import PlanWarning, interleave_batches

if TYPE_CHECKING:
    from gcbs_cli.trainers.sampler import PlannedBatchSampler

__all__ = ["PlanWarning", "PlannedBatchSampler", "interleave_batches"]


def __getattr__(name: str) -> Any:
    """The sampler, when it is first used: it needs torch."""
    if name != "PlannedBatchSampler":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gcbs_cli.trainers import sampler

    return sampler.PlannedBatchSampler
