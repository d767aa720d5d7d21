"""The planning methods: one pure function each, and the registry that names them."""

from collections.abc import Callable
from dataclasses import dataclass

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.orders import bsc
from gcbs_cli.orders.cuthill_mckee import plan_cm
from gcbs_cli.orders.finish import plan_random
from gcbs_cli.orders.given import PlannerInput
from gcbs_cli.orders.metis import check_metis, plan_metis
from gcbs_cli.system.arrays import Ints

__all__ = ["PLANNERS", "Planner", "PlannerInput"]


@dataclass(frozen=True)
class Planner:
    """A planning method."""

    plan: Callable[[PlannerInput], Ints]
    needs_graph: bool = False
    needs_weights: bool = False
    """A weighted graph as well."""
    check: Callable[[], None] = lambda: None
    """Raises BadInput where what the method needs is not installed."""


def _metis(given: PlannerInput) -> Ints:
    gains = given.gains()
    graph, worth = Adjacency(gains.indptr, gains.indices), gains.worth()
    del gains  # its shares are most of the memory
    keep = worth > 0.0  # pairs that are better kept apart have none
    return plan_metis(graph.kept(keep), worth[keep], given.batch_size, given.settings.seed)


def _cuthill_mckee(given: PlannerInput) -> Ints:
    if isinstance(given.graph, Adjacency):
        return plan_cm(given.graph)
    from gcbs_cli.orders.level_synchronous import plan_cm_on_device

    return plan_cm_on_device(given.graph)


PLANNERS: dict[str, Planner] = {
    "rcm": Planner(lambda given: _cuthill_mckee(given)[::-1].copy(), needs_graph=True),
    "cm": Planner(_cuthill_mckee, needs_graph=True),
    "metis": Planner(_metis, needs_graph=True, needs_weights=True, check=check_metis),
    "random": Planner(lambda given: plan_random(given.pair.rows, given.settings.seed)),
    "knn-groups": Planner(bsc.knn_groups),
    "words": Planner(bsc.words),
    "clusters": Planner(bsc.clusters),
    "neighbours": Planner(bsc.neighbours),
}
