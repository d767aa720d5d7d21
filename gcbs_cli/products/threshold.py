"""Where edges begin: the threshold t by the settings of a plan."""

from dataclasses import dataclass

from gcbs_cli.data.pairs import PairedRows
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
    method = QuantileMethod(graph.quantile_method)
    estimate = estimate_quantile(pair, quantile, method=method, seed=seed, backend=backend, progress=watcher.progress)
    return Threshold(estimate.threshold, estimate)
