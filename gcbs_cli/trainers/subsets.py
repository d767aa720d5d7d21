"""Put datasets in plan order, for readers that go from front to back."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.plan_source import PlanSource

if TYPE_CHECKING:
    from torch.utils.data import Dataset, Subset


def planned_subset(dataset: "Dataset[Any]", plan: Any) -> "Subset[Any]":
    """Return the dataset in plan order: with a SequentialSampler and batches of k, each batch is a planned one.

    This is how the GCBS paper feeds its trainer. Raises BadInput if the plan has another number of rows.
    """
    from torch.utils.data import Subset

    return Subset(dataset, PlanSource(plan, len(dataset)).for_epoch(0).perm.tolist())  # type: ignore[arg-type]


def select_planned(dataset: Any, plan: Any, *, flatten: bool = False) -> Any:
    """Return a Hugging Face `Dataset` in plan order, by `Dataset.select`.

    It then looks up every row by an index: reading from front to back is several times slower, and shards are no longer
    contiguous. `flatten` writes the rows out in plan order (`flatten_indices`), which pays if the order is read more
    than once, streamed or sharded. Raises BadInput if the plan has another number of rows.
    """
    chosen = dataset.select(PlanSource(plan, len(dataset)).for_epoch(0).perm)
    return chosen.flatten_indices() if flatten else chosen


def interleave_batches(plan: Any, batch_size: int, world_size: int) -> NDArray[np.int64]:
    """Return the order (N,) int64 that gives each rank planned batches if a reader deals rows to W ranks in turn.

    Such a reader gives rows j, j + W, j + 2W, … to one rank, so W batches are interleaved row by row. The rows after
    the last W full batches stay as planned; the reader would split them, so leave them out when writing.
    Raises BadInput if the plan is not a permutation, or has fewer than W full batches.
    """
    perm = PlanSource(plan).for_epoch(0).perm
    rows = len(perm) // (batch_size * world_size) * (batch_size * world_size)
    if rows == 0:
        raise BadInput(f"batch_size {batch_size}: {len(perm):,} rows make no full batch for each of {world_size} ranks")
    steps = perm[:rows].reshape(-1, world_size, batch_size)
    return np.concatenate([steps.swapaxes(1, 2).ravel(), perm[rows:]])
