"""Lists of the hardest and entries at a threshold where no products are kept: those of the CPU's products."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

import numpy as np
import pytest
from unit_data import exact_matrix, make_pair

pytest.importorskip("torch")

from gcbs_cli.products.backend import LimitedRows
from gcbs_cli.products.byte_kernels import byte_kernels
from gcbs_cli.products.edges import find_exceedances
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.screening_backend import ScreeningBackend
from gcbs_cli.products.tiles import Tile
from gcbs_cli.products.top_candidates import find_candidates
from gcbs_cli.products.torch_backend import TorchBackend

ROWS = 150
KINDS = ["random", "related", "duplicates", "all-equal", "cosine-1-1e-7", "at-threshold", "1003-dimensions", "hubs"]


def refuse(tile, threshold):
    raise AssertionError("products were made and compared")


@pytest.fixture(params=["triton", "bytes"])
def no_products(request, monkeypatch):
    """A backend whose products may serve the samples that limits are drawn from, and nothing else."""
    if request.param == "triton":
        pytest.importorskip("triton")
        backend = TorchBackend("cpu", fused=True)
    else:
        if byte_kernels() is None:
            pytest.skip("this processor multiplies no bytes")
        backend = ScreeningBackend(workers=2, least_products=0)
        monkeypatch.setattr(backend, "_is_quicker", lambda *_: True)
    monkeypatch.setattr(backend, "above", refuse)
    return backend


def entries(found):
    return sorted(zip(found.rows.tolist(), found.cols.tolist(), strict=True))


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_entries_are_those_of_float64(kind, ties, no_products):
    pair, exact = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    threshold = float(np.quantile(exact, 0.97, method="higher"))
    found = find_exceedances(pair, threshold, no_products, ties=ties, tile_rows=70)
    wanted = exact >= threshold if ties else exact > threshold
    assert entries(found) == [(int(row), int(col)) for row, col in zip(*np.nonzero(wanted), strict=True)]


@pytest.mark.parametrize("quantile", [None, 0.97])
@pytest.mark.parametrize("kind", KINDS)
def test_the_hardest_are_those_of_the_cpu(kind, quantile, no_products):
    pair = make_pair(kind, ROWS)
    threshold = None if quantile is None else float(np.quantile(exact_matrix(kind, ROWS), quantile, method="higher"))
    mine, theirs = (
        find_candidates(pair, threshold, 4, backend, tile_rows=70) for backend in (no_products, NumpyBackend(1))
    )
    for side in ("x", "y"):
        assert np.array_equal(getattr(mine, side).indices, getattr(theirs, side).indices)
        assert np.array_equal(getattr(mine, side).values, getattr(theirs, side).values)
    if threshold is not None:
        assert entries(mine.exceedances) == entries(theirs.exceedances)


def test_a_tile_that_begins_between_blocks_of_columns_is_compared(monkeypatch):
    if byte_kernels() is None:
        pytest.skip("this processor multiplies no bytes")
    pair, exact = make_pair("related", ROWS), exact_matrix("related", ROWS)
    backend = ScreeningBackend(workers=1, least_products=0)
    monkeypatch.setattr(backend, "_is_quicker", lambda *_: True)
    limits = np.random.default_rng(0).uniform(0.3, 0.8, size=(2, ROWS)).astype(np.float32)
    listed = backend.lister(LimitedRows(pair.x, pair.y, *limits))
    for cols in (slice(0, 96), slice(32, ROWS), slice(17, 90)):
        tile = Tile(slice(5, 120), cols)
        part = exact[tile.rows, tile.cols]
        for found, limit in zip(listed(tile), (limits[0][tile.rows, None], limits[1][None, cols]), strict=True):
            places = set(zip(found.rows.tolist(), found.cols.tolist(), strict=True))
            assert len(places) == len(found.rows)
            assert places >= {(int(i), int(j)) for i, j in zip(*np.nonzero(part > limit + 1e-6), strict=True)}
            assert np.abs(found.values - part[found.rows, found.cols]).max() < 1e-6
            assert (
                part[found.rows, found.cols] > np.broadcast_to(limit, part.shape)[found.rows, found.cols] - 0.1
            ).all()
