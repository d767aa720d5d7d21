"""Plan order for readers that deal rows to ranks in turn, such as mosaicml-streaming."""

from typing import Any

import numpy as np

from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.plan_source import PlanSource


def interleave_batches(plan: Any, batch_size: int, world_size: int) -> Ints:
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
