"""The log sums and hardest negatives of a report against float64 loops over all pairs."""

from dataclasses import replace

import numpy as np
import pytest
import reference
from unit_data import KINDS, exact_matrix, make_pair

from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.sums import loss_sums, pair_sums
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.system.arrays import group_numbers

ROWS, HARDEST = 230, 20
TEMPERATURES = [1e-3, 0.05, 2.0]
SIMILARITY_ERROR = 1e-6
"""Of a float32 similarity; a temperature divides it."""

NOBODY = Suspicion(np.full(ROWS, 2.0, np.float32))
"""No similarity reaches it, so that nobody is suspected."""


def log_sums(matrix, temperature):
    scaled = matrix / temperature
    shift = scaled.max(axis=1, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(scaled - shift).sum(axis=1)) + shift[:, 0]


def suspicion_and_mask(pair, matrix, kind):
    """A rule for a thirtieth of the entries, for groups, or both, and (N, N) what it leaves out."""
    rows, rng = len(matrix), np.random.default_rng(3)
    threshold = 2.0 if kind in ("none", "groups alone") else np.quantile(matrix, 0.97)
    ids = None
    out = reference.suspected_entries(matrix, threshold, 0.9)
    if "groups" in kind:
        ids = np.where(rng.random(rows) < 0.3, rng.integers(7, size=rows), -rng.integers(1, 4, size=rows))
        out |= (ids[:, None] == ids) & (ids >= 0) & ~np.eye(rows, dtype=bool)
    suspicion = Suspicion.of(pair.diagonal(), threshold, 0.9, ids)
    if kind == "positives":
        positives = rng.integers(20, size=rows)
        out &= positives[:, None] != positives
        suspicion = replace(suspicion, positives=group_numbers(positives))
    return suspicion, out


def check(sums, matrix, out):
    """One direction against its float64 (N, N) matrix."""
    others = np.where(np.eye(len(matrix), dtype=bool), -np.inf, matrix)
    for number, temperature in enumerate(TEMPERATURES):
        bound = 2e-6 + SIMILARITY_ERROR / temperature
        for found, hidden in zip(sums.log_sums[:, number], (np.zeros_like(out), out), strict=True):
            expected = log_sums(np.where(hidden, -np.inf, others), temperature)
            np.testing.assert_allclose(found, expected, rtol=0, atol=bound)
    hardest = -np.sort(-others, axis=1)[:, :HARDEST]
    np.testing.assert_allclose(sums.hardest, hardest, rtol=0, atol=SIMILARITY_ERROR)
    unsuspected = np.where(out, -np.inf, others).max(axis=1)
    np.testing.assert_allclose(sums.hardest_unsuspected, unsuspected, rtol=0, atol=SIMILARITY_ERROR)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suspects", ["none", "similar", "groups alone", "similar and groups", "positives"])
def test_sums_are_those_of_float64(kind, suspects, backend):
    pair, matrix = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    suspicion, out = suspicion_and_mask(pair, matrix, suspects)
    backend.tile_shape = (50, 90)
    views = kind in ("related", "duplicates", "hubs")
    found = pair_sums(pair, TEMPERATURES, backend, suspicion, hardest=HARDEST, unsuspected=True, views=views)
    within = {(0, 0): reference.similarity_matrix(pair.x, pair.x), (1, 1): reference.similarity_matrix(pair.y, pair.y)}
    expected = {(0, 1): matrix, (1, 0): matrix.T} | (within if views else {})
    assert found.keys() == expected.keys()
    for sides, of_sides in expected.items():
        check(found[sides], of_sides, out)


def test_a_row_whose_negatives_are_all_suspected_has_no_masked_sum():
    pair = make_pair("related", 40)
    limits = np.full(40, 2.0, np.float32)
    limits[0] = -2.0
    x = pair_sums(pair, [0.001, 0.05], CpuBackend(), Suspicion(limits), hardest=3, unsuspected=True)[0, 1]
    assert (x.log_sums[1, :, 0] == -np.inf).all()
    assert x.hardest_unsuspected[0] == -np.inf
    assert np.isfinite(x.log_sums[0]).all()
    assert np.isfinite(x.hardest[0]).all()


@pytest.mark.parametrize("count", [1, 39, 45, 100])
def test_lists_longer_than_the_keys_end_with_nothing(count):
    pair, matrix = make_pair("related", 40), exact_matrix("related", 40)
    backend = CpuBackend()
    backend.tile_rows = 16
    y = pair_sums(pair, [0.05], backend, NOBODY, hardest=count)[1, 0]
    others = np.where(np.eye(40, dtype=bool), -np.inf, matrix.T)
    expected = np.full((40, count), -np.inf)
    expected[:, : min(count, 40)] = -np.sort(-others, axis=1)[:, :count]
    np.testing.assert_allclose(y.hardest, expected, rtol=0, atol=SIMILARITY_ERROR)


def test_some_rows_against_many_keys_and_one_side_against_itself(backend):
    pair, matrix = make_pair("related", 100), exact_matrix("related", 100)
    backend.tile_rows = 16
    own = np.where(np.eye(100, dtype=bool), -np.inf, reference.similarity_matrix(pair.x, pair.x))
    x, y = loss_sums(pair.x[:30], pair.y, TEMPERATURES, backend)
    same = loss_sums(pair.x, pair.x, TEMPERATURES, backend)[0]
    for number, temperature in enumerate(TEMPERATURES):
        bound = 2e-6 + SIMILARITY_ERROR / temperature
        for found, of_keys in ((x, matrix[:30]), (y, matrix[:30].T), (same, own)):
            np.testing.assert_allclose(found[number], log_sums(of_keys, temperature), rtol=0, atol=bound)


@pytest.mark.parametrize("workers", [2, 5])
def test_threads_and_devices_change_no_bit_of_the_sums(workers):
    devices = pytest.importorskip("gcbs_cli.products.torch_device")
    pair = make_pair("hubs", ROWS)
    for one, several in (
        (CpuBackend(1), CpuBackend(workers)),
        (devices.TorchBackend(["cpu"]), devices.TorchBackend(["cpu"] * workers)),
    ):
        one.tile_rows = several.tile_rows = 30
        runs = [
            pair_sums(pair, TEMPERATURES, backend, NOBODY, hardest=HARDEST, unsuspected=True)
            for backend in (one, several)
        ]
        for mine, theirs in zip(*(run.values() for run in runs), strict=True):
            for name in vars(mine):
                assert np.array_equal(getattr(mine, name), getattr(theirs, name)), name
