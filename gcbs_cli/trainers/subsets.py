"""Datasets in plan order, for readers that go from front to back."""

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

from gcbs_cli.trainers.plan_source import PlanSource

if TYPE_CHECKING:
    from torch.utils.data import Dataset, Subset


def planned_subset(dataset: "Dataset[Any]", plan: Any) -> "Subset[Any]":
    """The dataset in plan order: with a SequentialSampler and batches of k, each batch is a planned one.

    This is how the GCBS paper feeds its trainer. Raises BadInput when the plan is not one of this dataset's rows.
    """
    from torch.utils.data import Subset

    rows = len(dataset) if isinstance(dataset, Sized) else None
    return Subset(dataset, PlanSource(plan, rows).for_epoch(0).perm.tolist())


def select_planned(dataset: Any, plan: Any, *, flatten: bool = False) -> Any:
    """A Hugging Face `Dataset` in plan order, by `Dataset.select`.

    It then holds an index into the table, and every row is looked up by itself: reading from front to back is several
    times slower, and shards are no longer contiguous. `flatten` writes the rows out in plan order
    (`flatten_indices`), which pays when the order is read more than once or is streamed or sharded.
    Raises BadInput when the plan is not one of this dataset's rows.
    """
    chosen = dataset.select(PlanSource(plan, len(dataset)).for_epoch(0).perm)
    return chosen.flatten_indices() if flatten else chosen
