"""The planning methods: one pure function each, and the registry that names them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.orders import bsc
from gcbs_cli.orders.cuthill_mckee import plan_cm
from gcbs_cli.orders.finish import plan_random
from gcbs_cli.orders.inputs import MethodInput
from gcbs_cli.orders.metis import plan_metis
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.version import required

__all__ = ["METHODS", "MethodInput", "PlanningMethod"]


@dataclass(frozen=True)
class PlanningMethod:
    """A planning method."""

    order: Callable[[MethodInput], Ints]
    needs_graph: bool = False
    needs_weights: bool = False
    """A weighted graph as well."""
    check: Callable[[], object] = lambda: None
    """Raises BadInput where what the method needs is not installed."""


def _metis(inputs: MethodInput) -> Ints:
    gains = inputs.gains()
    graph = Adjacency(gains.indptr, gains.indices)
    worth = gains.worth()
    del gains  # its shares are most of the memory
    keep = worth > 0.0  # pairs that are too hard are better kept apart
    return plan_metis(graph.subgraph(keep), worth[keep], inputs.batch_size, inputs.settings.seed)


def _cuthill_mckee(inputs: MethodInput) -> Ints:
    if inputs.graph is None:
        raise ValueError("this method needs a graph")
    return plan_cm(inputs.graph)


_pymetis = partial(required, "pymetis", "--method metis", "metis")
METHODS: dict[str, PlanningMethod] = {
    "rcm": PlanningMethod(lambda inputs: _cuthill_mckee(inputs)[::-1].copy(), needs_graph=True),
    "cm": PlanningMethod(_cuthill_mckee, needs_graph=True),
    "metis": PlanningMethod(
        _metis, needs_graph=True, needs_weights=True, check=partial(required, "pymetis", "--method metis", "metis")
    ),
    "random": PlanningMethod(lambda inputs: plan_random(inputs.pairs.rows, inputs.settings.seed)),
    "knn-groups": PlanningMethod(bsc.knn_groups),
    "words": PlanningMethod(bsc.words),
    "clusters": PlanningMethod(bsc.clusters),
    "neighbours": PlanningMethod(bsc.neighbours),
}
