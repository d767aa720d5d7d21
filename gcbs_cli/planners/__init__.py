"""The planning methods: one pure function each, and the registry that names them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.errors import BadInput
from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.planners.cuthill_mckee import plan_cm, plan_rcm
from gcbs_cli.planners.random_order import plan_random


@dataclass(frozen=True)
class PlannerInput:
    """What a planner works on: N, the graph (None where the method needs none), rows a batch, a seed for its draws."""

    rows: int
    graph: Adjacency | None
    batch_size: int
    seed: int = 0

    @property
    def edges(self) -> Adjacency:
        """The graph, for methods that need one."""
        if self.graph is None:
            raise ValueError("this method needs a graph")
        return self.graph


@dataclass(frozen=True)
class Planner:
    """A planning method: its function, what it needs, and one line for people."""

    plan: Callable[[PlannerInput], NDArray[np.int64]]
    needs_graph: bool
    summary: str


PLANNERS: dict[str, Planner] = {
    "rcm": Planner(lambda given: plan_rcm(given.edges), True, "reverse Cuthill–McKee (GCBS)"),
    "cm": Planner(lambda given: plan_cm(given.edges), True, "Cuthill–McKee, the same order from the other end"),
    "random": Planner(
        lambda given: plan_random(given.rows, given.seed), False, "a seeded random order, to compare with"
    ),
}


def planner_named(name: str) -> Planner:
    """Raises BadInput with the names there are."""
    if name not in PLANNERS:
        raise BadInput(f"--method {name}: unknown; expected one of {', '.join(PLANNERS)}")
    return PLANNERS[name]
