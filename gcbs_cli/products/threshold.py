"""Where edges begin: the threshold t by the settings of a plan."""

from dataclasses import asdict, dataclass
from typing import Any

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.checkpoints import Checkpoints
from gcbs_cli.products.backend import Backend
from gcbs_cli.products.quantile import estimate_quantile
from gcbs_cli.products.quantile_estimate import QuantileEstimate, QuantileMethod
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.system.progress import Progress


@dataclass(frozen=True)
class Threshold:
    """Where edges begin: t, and where it was estimated, the estimate."""

    value: float
    estimate: QuantileEstimate | None


def find_threshold(pair: PairedRows, graph: GraphSettings, seed: int, backend: Backend, watcher: Progress) -> Threshold:
    """t by the settings: given, or the quantile estimated."""
    quantile = graph.requested_quantile(pair.rows)
    if quantile is None:
        assert graph.threshold is not None
        return Threshold(graph.threshold, None)
    method = QuantileMethod(graph.method)
    estimate = estimate_quantile(pair, quantile, method=method, seed=seed, backend=backend, progress=watcher.progress)
    return Threshold(estimate.threshold, estimate)


def kept_threshold(
    pair: PairedRows,
    graph: GraphSettings,
    seed: int,
    backend: Backend,
    watcher: Progress,
    checkpoints: Checkpoints | None,
    name: str,
) -> Threshold:
    """t, from the checkpoints where they have it under this name: the exact quantile is a pass of its own."""

    def find() -> dict[str, Any]:
        return asdict(find_threshold(pair, graph, seed, backend, watcher))

    found = find() if checkpoints is None else checkpoints.value(name, find)
    estimate = found["estimate"]
    if estimate is not None:
        estimate = QuantileEstimate(**estimate | {"method": QuantileMethod(estimate["method"])})
    return Threshold(found["value"], estimate)
