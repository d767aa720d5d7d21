"""What a planning method works on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.graph.hard_pairs import WeightedGraph
from gcbs_cli.orders.swap_gains import Background, SwapGains, sample_background, swap_gains
from gcbs_cli.products.operations import Backend
from gcbs_cli.settings.plan import PlanSettings


@dataclass(frozen=True)
class MethodInput:
    """The rows and their graphs, and what decides how they are put together."""

    pairs: PairedRows
    settings: PlanSettings
    backend: Backend
    """Where a method makes its products."""
    graph: Adjacency | None = None
    """Hard negatives, without edges that are too hard where a margin says which."""
    weighted: WeightedGraph | None = None
    """All edges with their similarities; rows without a neighbour have their hardest candidates instead."""
    texts: Sequence[str] | None = None
    """A text for each row, for the method words."""

    @property
    def batch_size(self) -> int:
        """Rows that the method puts together: the group size, where groups are mixed into batches."""
        return self.settings.group_size or self.settings.batch_size

    @cached_property
    def _background(self) -> Background:
        return sample_background(self.pairs, self.settings.temperature, self.settings.seed)

    def gains(self) -> SwapGains:
        """What rows of the weighted graph add to each other's learnable share."""
        if self.weighted is None:
            raise ValueError("this method needs a weighted graph")
        settings = self.settings
        margin = 1.0 if settings.fn_margin is None else settings.fn_margin
        return swap_gains(self.weighted, self.pairs, settings.temperature, self.batch_size, self._background, margin)
