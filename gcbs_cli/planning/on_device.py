"""Planning where the graph stays on the GPU: edges, CSR, order and measures; only the permutation comes back."""

from contextlib import AbstractContextManager

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.grid import Grid
from gcbs_cli.graph.device_graph import DeviceGraph, device_graph_from_pairs, measure_on_device
from gcbs_cli.graph.measures import OrderMeasures
from gcbs_cli.orders.level_synchronous import plan_cm_on_device, plan_rcm_on_device
from gcbs_cli.products.device_edges import find_device_edges
from gcbs_cli.products.tiles import Progress
from gcbs_cli.products.torch_device import TorchBackend, naming_what_does_not_fit

_ORDERS = {"rcm": plan_rcm_on_device, "cm": plan_cm_on_device}


def find_device_plan(
    grid: Grid, threshold: int, backend: TorchBackend, *, tile_rows: int | None, progress: Progress | None = None
) -> "DevicePlan":
    """The graph above the threshold, on the first of the devices; all of them look for its edges.

    Raises OutOfDeviceMemory where it does not fit.
    """
    found = find_device_edges(grid, threshold, backend, tile_rows=tile_rows, progress=progress)
    with _fitting(len(found.lower)):
        graph = device_graph_from_pairs(len(grid.x), found.lower, found.higher)
    return DevicePlan(graph, 1.0 - found.entries_above / len(grid.x) ** 2)


def _fitting(edges: int) -> AbstractContextManager[None]:
    return naming_what_does_not_fit(f"{edges:,} edges", "a higher --quantile, fewer rows, --partitions")


class DevicePlan:
    """The order and the measures of a graph that stays on its device, and the share of the entries at or below t."""

    def __init__(self, graph: DeviceGraph, achieved_quantile: float) -> None:
        self._graph = graph
        self.edges, self.degrees = graph.edges, graph.degrees
        self.achieved_quantile = achieved_quantile

    def order(self, method: str) -> NDArray[np.int64]:
        """(N,) the permutation of `rcm` or `cm`."""
        with _fitting(self.edges):
            return _ORDERS[method](self._graph)

    def measure(self, perm: NDArray[np.int64], batch_size: int) -> OrderMeasures:
        """What an order makes of the graph."""
        with _fitting(self.edges):
            return measure_on_device(self._graph, perm, batch_size)
