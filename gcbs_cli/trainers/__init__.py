"""Feed planned batches to trainers: one sampler that every framework takes, and a module for each framework.

    from gcbs_cli.trainers import PlannedBatchSampler

    loader = DataLoader(dataset, batch_sampler=PlannedBatchSampler("perm.npy", dataset=dataset))

A framework is imported only by its own module: `gcbs_cli.trainers.sentence_transformers`, `.transformers`,
`.accelerate`, `.lightning`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gcbs_cli.trainers.epoch_planner import EpochFigures, EpochPlanner
    from gcbs_cli.trainers.loss_check import LossCheck
    from gcbs_cli.trainers.plan_source import PlanWarning
    from gcbs_cli.trainers.sampler import PlannedBatchSampler
    from gcbs_cli.trainers.subsets import interleave_batches, planned_subset, select_planned

__all__ = [
    "EpochFigures",
    "EpochPlanner",
    "LossCheck",
    "PlanWarning",
    "PlannedBatchSampler",
    "interleave_batches",
    "planned_subset",
    "select_planned",
]

_MODULES = {
    "EpochFigures": "epoch_planner",
    "EpochPlanner": "epoch_planner",
    "LossCheck": "loss_check",
    "PlanWarning": "plan_source",
    "PlannedBatchSampler": "sampler",
    "interleave_batches": "subsets",
    "planned_subset": "subsets",
    "select_planned": "subsets",
}


def __getattr__(name: str) -> Any:
    """Import a module when one of its names is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
