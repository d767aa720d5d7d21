"""What a manifest says of the parts of a plan, and the settings with which one graph would be planned."""

from gcbs_cli.plan_file.manifest import PartitionsRecord
from gcbs_cli.planning.parts.build import PartitionedPlan


def partitions_record(plan: PartitionedPlan, engine: str, *, groups: bool) -> PartitionsRecord:
    """Sizes in the order of the parts, and what their graphs were."""
    edges = sum(part.edges for part in plan.parts)
    thresholds = [part.threshold for part in plan.parts if part.threshold is not None]
    steps: dict[str, float] = {}
    for part in plan.parts:
        for name, seconds in part.seconds.items():
            steps[name] = steps.get(name, 0.0) + seconds
    return PartitionsRecord(
        parts=len(plan.parts),
        sizes=plan.partition.sizes.tolist(),
        moved=plan.partition.moved,
        engine=engine,
        thresholds=thresholds or None,
        edges=edges,
        isolated=sum(part.isolated for part in plan.parts),
        max_degree=max(part.max_degree for part in plan.parts),
        in_batch_edge_share=sum(part.in_batch for part in plan.parts) / edges if edges else None,
        seconds_of_parts=steps,
        groups=groups,
        settings=plan.settings.values,
    )
