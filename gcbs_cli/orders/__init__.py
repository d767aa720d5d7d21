"""The planning methods: one pure function each, and the registry that names them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.graph.weighted import WeightedGraph
from gcbs_cli.orders import bsc
from gcbs_cli.orders.cuthill_mckee import plan_cm, plan_rcm
from gcbs_cli.orders.metis import check_metis, plan_metis
from gcbs_cli.orders.random_order import plan_random
from gcbs_cli.orders.swap_gains import Background, SwapGains, log_background, swap_gains
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.settings.plan import DEFAULT_TEMPERATURE, BscSettings
from gcbs_cli.system.errors import BadInput


@dataclass(frozen=True)
class PlannerInput:
    """What a planner works on. What a method did not ask for in its registry entry may be None.

    `batch_size`: rows that the method puts together (the group size, where groups are mixed into batches); `seed`
    decides its draws; `pair`: the unit rows; `graph`: hard negatives without suspected pairs; `weighted`: the same with
    similarities, in which rows without a neighbour have their hardest candidates instead; `suspects`: pairs better kept
    apart; `labels`: (G, N) int64, rows with the same label >= 0 on one line never share a batch (planning repairs what
    a method leaves, so a method may ignore it); `bsc`, `inputs`: what some methods alone understand, settings and data
    such as texts; `backend`: where it makes its products, the CPU where None.
    """

    rows: int
    graph: Adjacency | None
    batch_size: int
    seed: int = 0
    temperature: float = DEFAULT_TEMPERATURE
    pair: PairedRows | None = None
    weighted: WeightedGraph | None = None
    suspects: SuspectPairs | None = None
    labels: NDArray[np.int64] | None = None
    bsc: BscSettings = field(default_factory=BscSettings)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    backend: Backend | None = None

    @property
    def edges(self) -> Adjacency:
        """The graph, for methods that need one."""
        if self.graph is None:
            raise ValueError("this method needs a graph")
        return self.graph

    @property
    def weighted_edges(self) -> WeightedGraph:
        """The weighted graph, for methods that need one."""
        if self.weighted is None:
            raise ValueError("this method needs a weighted graph")
        return self.weighted

    @property
    def unit_rows(self) -> PairedRows:
        """The unit rows, for methods that need them."""
        if self.pair is None:
            raise ValueError("this method needs the embeddings")
        return self.pair

    @cached_property
    def _background(self) -> Background:
        return log_background(self.unit_rows, self.temperature, self.seed)

    def gains(self, suspects: SuspectPairs | None, *, penalty: float) -> SwapGains:
        """What rows of the weighted graph are worth to each other, with a penalty (nats) for suspected pairs."""
        return swap_gains(
            self.weighted_edges,
            suspects,
            self.unit_rows,
            self.temperature,
            self.batch_size,
            penalty=penalty,
            background=self._background,
        )


@dataclass(frozen=True)
class Planner:
    """A planning method: its function, what it needs, and one line for people.

    `needs_weights`: a weighted graph as well; `penalises_suspects`: it keeps suspected pairs apart by itself, where
    others only lose their edges; `check`: raises BadInput where what the method needs is not installed.
    """

    plan: Callable[[PlannerInput], NDArray[np.int64]]
    needs_graph: bool
    summary: str
    needs_weights: bool = False
    penalises_suspects: bool = False
    check: Callable[[], None] = lambda: None


def _metis(given: PlannerInput) -> NDArray[np.int64]:
    worth = given.gains(None, penalty=0.0).linear().worth
    return plan_metis(given.weighted_edges.graph, worth, given.batch_size, given.seed)


PLANNERS: dict[str, Planner] = {
    "rcm": Planner(lambda given: plan_rcm(given.edges), True, "reverse Cuthill–McKee (GCBS)"),
    "cm": Planner(lambda given: plan_cm(given.edges), True, "Cuthill–McKee, the same order from the other end"),
    "metis": Planner(
        _metis, True, "parts of the weighted graph (METIS, as B3 does)", needs_weights=True, check=check_metis
    ),
    "random": Planner(
        lambda given: plan_random(given.rows, given.seed), False, "a seeded random order, to compare with"
    ),
    "knn-groups": Planner(bsc.knn_groups, False, "groups of a row and its nearest free neighbours (BSC, algorithm 1)"),
    "words": Planner(bsc.words, False, "groups of rows with the same random words of --text (BSC, algorithm 2)"),
    "clusters": Planner(bsc.clusters, False, "groups of rows of the same k-means cluster (BSC)"),
    "neighbours": Planner(bsc.neighbours, False, "groups of rows with the same random neighbour (BSC)"),
}


def planner_named(name: str) -> Planner:
    """Raises BadInput with the names there are."""
    if name not in PLANNERS:
        raise BadInput(f"--method {name}: unknown; expected one of {', '.join(PLANNERS)}")
    return PLANNERS[name]
