"""Feed planned batches to trainers: one sampler that every framework takes, and a module for each framework.

    from gcbs_cli.trainers import PlannedBatchSampler

    loader = DataLoader(dataset, batch_sampler=PlannedBatchSampler("perm.npy", dataset=dataset))

`gcbs_cli.plan_batches` and `gcbs_cli.planned` do the rest. A framework is imported only by its own module.
"""

from gcbs_cli.trainers.plan_source import PlanWarning, interleave_batches
from gcbs_cli.trainers.sampler import PlannedBatchSampler

__all__ = ["PlanWarning", "PlannedBatchSampler", "interleave_batches"]
