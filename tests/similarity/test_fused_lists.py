"""Lists of the hardest and entries at a threshold from the kernel that keeps no products: those of the CPU."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

import numpy as np
import pytest
from unit_data import exact_matrix, make_pair

pytest.importorskip("torch")

from gcbs_cli.similarity.edges import find_exceedances
from gcbs_cli.similarity.numpy_backend import NumpyBackend
from gcbs_cli.similarity.top_candidates import find_candidates
from gcbs_cli.similarity.torch_backend import TorchBackend

pytest.importorskip("triton")

ROWS = 150
KINDS = ["related", "duplicates", "all-equal", "cosine-1-1e-7", "at-threshold", "1003-dimensions", "hubs"]


class NoProducts(TorchBackend):
    """The kernel's backend, whose products may serve the samples that limits are drawn from and nothing else."""

    def __init__(self):
        super().__init__("cpu", fused=True)

    def above(self, tile, threshold):
        raise AssertionError("products were made and compared")


def entries(found):
    return sorted(zip(found.rows.tolist(), found.cols.tolist(), strict=True))


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_those_of_float64(kind, ties):
    pair, exact = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    threshold = float(np.quantile(exact, 0.97, method="higher"))
    found = find_exceedances(pair, threshold, NoProducts(), ties=ties, tile_rows=70)
    wanted = exact >= threshold if ties else exact > threshold
    assert entries(found) == [(int(row), int(col)) for row, col in zip(*np.nonzero(wanted), strict=True)]


@pytest.mark.parametrize("quantile", [None, 0.97])
@pytest.mark.parametrize("kind", KINDS)
def test_the_hardest_are_those_of_the_cpu(kind, quantile):
    pair = make_pair(kind, ROWS)
    threshold = None if quantile is None else float(np.quantile(exact_matrix(kind, ROWS), quantile, method="higher"))
    mine, theirs = (
        find_candidates(pair, threshold, 4, backend, tile_rows=70) for backend in (NoProducts(), NumpyBackend(1))
    )
    for side in ("x", "y"):
        assert np.array_equal(getattr(mine, side).indices, getattr(theirs, side).indices)
        assert np.array_equal(getattr(mine, side).values, getattr(theirs, side).values)
    if threshold is not None:
        assert entries(mine.exceedances) == entries(theirs.exceedances)
