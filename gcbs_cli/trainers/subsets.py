"""Datasets in plan order, for readers that go from front to back."""

from collections.abc import Sized
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.errors import BadInput
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


def interleave_batches(plan: Any, batch_size: int, world_size: int) -> NDArray[np.int64]:
    """The order (N,) int64 in which a reader that deals single rows to W ranks in turn gives each rank planned batches.

    Rows j, j + W, j + 2W, … of W batches go to one rank, so those batches are written row by row side by side. The rows
    after the last W full batches stay as planned; such a reader would part them, so leave them out when writing.
    Raises BadInput when the plan is no permutation, or holds no W full batches.
    """
    perm = PlanSource(plan).for_epoch(0).perm
    rows = len(perm) // (batch_size * world_size) * (batch_size * world_size)
    if rows == 0:
        raise BadInput(f"batch_size {batch_size}: {len(perm):,} rows make no full batch for each of {world_size} ranks")
    steps = perm[:rows].reshape(-1, world_size, batch_size)
    return np.concatenate([steps.swapaxes(1, 2).ravel(), perm[rows:]])
