"""What planning in parts cost against one graph of all rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.settings.plan import PlanSettings

MOST_ROWS_OF_ONE_GRAPH = 50_000
"""Up to so many rows a report plans them at once as well; beyond, the pairs across parts must do."""


@dataclass(frozen=True)
class PlannedParts:
    """`sizes`: rows of each part in plan order; `one_graph`: the settings to plan all rows with, None to leave it."""

    sizes: list[int]
    one_graph: PlanSettings | None = None


@dataclass(frozen=True)
class PartitionCost:
    """edges_across: share of the hard pairs that lie in different parts; one_graph: gap reduction of a plan of all rows
    at once, None where none was made; lost: the share of it that the parts lose, below 0 where they gain.
    """

    parts: int
    edges_across: float | None
    one_graph: float | None
    lost: float | None


def partition_cost(
    parts: PlannedParts, graph: Adjacency, perm: NDArray[np.int64], reduction: float | None, one_graph: float | None
) -> PartitionCost:
    """`reduction`, `one_graph`: gap reductions of the plan and of that of all rows; perm: (N,) the plan."""
    label = np.empty(len(perm), np.int64)
    label[perm] = np.repeat(np.arange(len(parts.sizes)), parts.sizes)
    lower, higher = graph.pairs()
    return PartitionCost(
        parts=len(parts.sizes),
        edges_across=float(np.mean(label[lower] != label[higher])) if len(lower) else None,
        one_graph=one_graph,
        lost=None if not one_graph or reduction is None else 1.0 - reduction / one_graph,
    )
