"""Estimate t, the q-quantile of all N² entries of X Yᵀ, and say how sure the estimate is."""

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.backend import Backend
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.quantile_estimate import QuantileEstimate, QuantileMethod, check_quantile
from gcbs_cli.products.quantile_passes import exact_quantile, median_of_chunks
from gcbs_cli.products.quantile_sample import draw_sample
from gcbs_cli.products.tiles import Progress


def estimate_quantile(
    pair: PairedRows,
    quantile: float,
    *,
    method: QuantileMethod = QuantileMethod.SAMPLE,
    seed: int = 0,
    backend: Backend | None = None,
    progress: Progress | None = None,
) -> QuantileEstimate:
    """The threshold at quantile q, by the method asked for.

    `sample` reads a seeded sample, `chunks` and `exact` every entry, once or more. Raises BadInput unless 0 < q < 1.
    """
    check_quantile(quantile)
    sample = draw_sample(pair, quantile, seed)
    if method is QuantileMethod.SAMPLE or (sample.whole and method is QuantileMethod.EXACT):
        return sample.estimate(quantile, method)
    device = backend or NumpyBackend()
    if method is QuantileMethod.CHUNKS:
        return median_of_chunks(pair, quantile, sample, device, progress)
    return exact_quantile(pair, quantile, sample, device, progress)
