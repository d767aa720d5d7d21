"""Edges found on a device, by torch and by the Triton kernels in their interpreter, are those of float64 loops."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported

import numpy as np
import pytest
import reference
from unit_data import KINDS, exact_matrix, make_pair, unit

torch = pytest.importorskip("torch")

from gcbs_cli.data.canonical import dot_pairs
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products import device_edges
from gcbs_cli.products.backend import float32_error
from gcbs_cli.products.device_edges import canonical_dots, find_device_edges, fused_dots


@pytest.fixture(params=["torch", "triton"])
def fused(request):
    if request.param == "triton":
        pytest.importorskip("triton")
    return request.param == "triton"


def check(pair, exact, threshold, fused, **settings):
    edges = find_device_edges(pair, threshold, ["cpu"], fused=fused, **settings)
    found = edges.pairs
    pairs = list(zip(found.lower.tolist(), found.higher.tolist(), strict=True))
    assert len(set(pairs)) == len(pairs)
    assert set(pairs) == reference.edges_above(exact, threshold)
    assert (found.lower.dtype, found.higher.dtype) == (torch.int32, torch.int32)
    assert edges.entries_above == np.count_nonzero(exact > threshold)


@pytest.mark.parametrize("share", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("kind", KINDS)
def test_edges_are_those_of_float64(kind, share, fused):
    pair, exact = make_pair(kind, 70), exact_matrix(kind, 70)
    check(pair, exact, float(np.sort(exact.reshape(-1))[int(share * (exact.size - 1))]), fused)


def test_edges_across_strips_and_tiles_that_do_not_fit_the_rows(fused):
    check(make_pair("related", 300), exact_matrix("related", 300), 0.6, fused, strip_rows=128)


@pytest.mark.parametrize("threshold", [-0.4, 0.0])
def test_thresholds_at_which_most_pairs_are_edges(threshold, fused):
    check(make_pair("related", 60), exact_matrix("related", 60), threshold, fused)


def test_more_edges_than_there_is_room_for_are_found_again():
    pytest.importorskip("triton")
    pair, exact = make_pair("related", 140), exact_matrix("related", 140)
    sides = torch.from_numpy(pair.x), torch.from_numpy(pair.y)
    search = device_edges._FusedSearch(*sides, 0.2)
    search._rooms = [3, 5]
    found = search(0, 140)
    sure, unsure, lone = (
        set(zip(part.lower.tolist(), part.higher.tolist(), strict=True))
        for part in (found.sure, found.unsure, found.lone)
    )
    assert (len(sure), len(unsure), len(lone)) == (
        len(found.sure.lower),
        len(found.unsure.lower),
        len(found.lone.lower),
    )
    assert not sure & unsure
    assert lone
    assert {(min(entry), max(entry)) for entry in lone} <= sure <= reference.edges_above(exact, 0.2) <= sure | unsure
    directed = {(i, j) for i, j in np.argwhere(exact > 0.2).tolist() if i != j}
    either_way = unsure | {(j, i) for i, j in unsure}
    assert found.entries == len(directed - lone - either_way)


def test_work_goes_on_with_smaller_strips_where_memory_runs_out(fused, monkeypatch):
    pair, exact = make_pair("related", 600), exact_matrix("related", 600)
    kind = device_edges._FusedSearch if fused else device_edges._PlainSearch
    plain, strips = kind.__call__, []

    def tight(self, start, stop):
        strips.append(stop - start)
        if stop - start > 256:
            raise torch.OutOfMemoryError("no room")
        return plain(self, start, stop)

    monkeypatch.setattr(kind, "__call__", tight)
    check(pair, exact, 0.7, fused, strip_rows=512)
    assert strips == [512, 256, 256, 88]


@pytest.mark.parametrize("dim", [1, 2, 3, 64, 100, 768, 1003])
def test_the_canonical_sum_has_the_same_bits_in_torch(dim, monkeypatch):
    monkeypatch.setattr(device_edges, "DOUBLES_AT_ONCE", 10 * dim)
    rng = np.random.default_rng(dim)
    x, y = unit(rng.normal(size=(50, dim))), unit(rng.normal(size=(50, dim)))
    rows, cols = rng.integers(50, size=(2, 300))
    values = canonical_dots(*(torch.from_numpy(array) for array in (x, y, rows, cols)))
    assert np.array_equal(values.numpy().view(np.int64), dot_pairs(x, y, rows, cols).view(np.int64))


@pytest.mark.parametrize("dim", [1, 63, 64, 100])
def test_the_kernel_of_chosen_pairs_is_within_its_error(dim):
    pytest.importorskip("triton")
    rng = np.random.default_rng(dim)
    x, y = unit(rng.normal(size=(40, dim))), unit(rng.normal(size=(40, dim)))
    rows, cols = (torch.from_numpy(ends) for ends in rng.integers(40, size=(2, 75), dtype=np.int32))
    values = fused_dots(torch.from_numpy(x), torch.from_numpy(y), rows, cols).double().numpy()
    assert np.abs(values - dot_pairs(x, y, rows.numpy(), cols.numpy())).max() <= float32_error(dim)


def test_rounding_to_bfloat16_stays_within_the_margins():
    pytest.importorskip("triton")
    pair = PairedRows(*(unit(np.random.default_rng(seed).normal(size=(64, 200)) ** 3) for seed in (0, 1)))
    search = device_edges._FusedSearch(torch.from_numpy(pair.x), torch.from_numpy(pair.y), 0.5)
    rounded = search._x.double() @ search._y.double().T
    lost = (rounded - torch.from_numpy(reference.similarity_matrix(pair.x, pair.y))).abs()
    margins = search._x_margin[:, None] + search._y_margin[None, :]
    assert (lost <= margins).all()
    assert lost.max() > 0.05 * margins.min()
