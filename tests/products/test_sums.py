"""The log sums and hardest negatives of a report against float64 loops over all pairs."""

import numpy as np
import pytest
from unit_data import KINDS, exact_matrix, make_pair

from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.sums import loss_sums
from gcbs_cli.products.suspects import NO_SUSPECTS, SuspectPairs, pairs_of

ROWS, HARDEST = 230, 20
TEMPERATURES = [1e-3, 0.05, 2.0]
SIMILARITY_ERROR = 1e-6
"""Of a float32 similarity; a temperature divides it."""


def log_sums(matrix, temperature):
    scaled = matrix / temperature
    shift = scaled.max(axis=1, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(scaled - shift).sum(axis=1)) + shift[:, 0]


def some_suspects(rows, matrix, kind):
    """Half of the most similar pairs and a few at random; and, of a third of the rows, groups."""
    rng = np.random.default_rng(3)
    i, j = np.nonzero(matrix >= np.quantile(matrix, 0.97))
    chosen = rng.random(len(i)) < 0.5
    ends = (
        np.concatenate([i[chosen], rng.integers(rows, size=40)]),
        np.concatenate([j[chosen], rng.integers(rows, size=40)]),
    )
    apart = ends[0] != ends[1]
    listed = pairs_of(*(side[apart].astype(np.int32) for side in ends), rows)
    groups = np.where(rng.random(rows) < 0.3, rng.integers(7, size=rows), -rng.integers(1, 4, size=rows))
    return {
        "none": NO_SUSPECTS,
        "groups alone": SuspectPairs(listed.lower[:0], listed.higher[:0], groups),
        "listed": listed,
        "groups": SuspectPairs(listed.lower, listed.higher, groups),
    }[kind]


def left_out(suspects, rows):
    """(N, N) which entries a loss without suspected pairs does not see."""
    out = np.zeros((rows, rows), bool)
    out[suspects.lower, suspects.higher] = out[suspects.higher, suspects.lower] = True
    if suspects.groups is not None:
        ids = suspects.groups
        out |= (ids[:, None] == ids) & (ids >= 0) & ~np.eye(rows, dtype=bool)
    return out


def check(side, matrix, out, *, own_is_key):
    """One direction against its float64 (N, N) matrix."""
    own = np.eye(len(matrix), dtype=bool)
    keys = np.where(own & (not own_is_key), -np.inf, matrix)
    for number, temperature in enumerate(TEMPERATURES):
        bound = 2e-6 + SIMILARITY_ERROR / temperature
        for found, hidden in ((side.log_sums, np.zeros_like(out)), (side.masked, out)):
            expected = log_sums(np.where(hidden, -np.inf, keys), temperature)
            np.testing.assert_allclose(found[number], expected, rtol=0, atol=bound)
    others = np.where(own, -np.inf, matrix)
    hardest = -np.sort(-others, axis=1)[:, :HARDEST]
    np.testing.assert_allclose(side.hardest, hardest, rtol=0, atol=SIMILARITY_ERROR)
    unsuspected = np.where(out, -np.inf, others).max(axis=1)
    np.testing.assert_allclose(side.hardest_unsuspected, unsuspected, rtol=0, atol=SIMILARITY_ERROR)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suspects", ["none", "listed", "groups"])
def test_sums_across_are_those_of_float64(kind, suspects, backend):
    pair, matrix = make_pair(kind, ROWS), exact_matrix(kind, ROWS)
    removed = some_suspects(ROWS, matrix, suspects)
    backend.tile_shape = (50, 90)
    x, y = loss_sums(pair.x, pair.y, TEMPERATURES, backend, removed=removed, hardest=HARDEST)
    out = left_out(removed, ROWS)
    check(x, matrix, out, own_is_key=True)
    check(y, matrix.T, out, own_is_key=True)


@pytest.mark.parametrize("kind", ["related", "duplicates", "hubs"])
@pytest.mark.parametrize("suspects", ["none", "listed", "groups", "groups alone"])
def test_sums_of_one_side_leave_the_row_itself_out(kind, suspects, backend):
    side = make_pair(kind, ROWS).x
    matrix = side.astype(np.float64) @ side.T.astype(np.float64)
    removed = some_suspects(ROWS, matrix, suspects)
    backend.tile_shape = (50, 90)
    found, same = loss_sums(side, side, TEMPERATURES, backend, removed=removed, hardest=HARDEST)
    assert found is same
    check(found, matrix, left_out(removed, ROWS), own_is_key=False)


def test_a_row_whose_negatives_are_all_suspected_keeps_its_positive_alone():
    pair, matrix = make_pair("related", 40), exact_matrix("related", 40)
    lower, higher = np.zeros(39, np.int32), np.arange(1, 40, dtype=np.int32)
    x, _ = loss_sums(pair.x, pair.y, [0.001, 0.05], CpuBackend(), removed=SuspectPairs(lower, higher), hardest=3)
    np.testing.assert_allclose(x.masked[:, 0], matrix[0, 0] / np.array([0.001, 0.05]), rtol=1e-6)
    assert x.hardest_unsuspected[0] == -np.inf
    assert np.isfinite(x.hardest[0]).all()


@pytest.mark.parametrize("count", [1, 39, 45, 100])
def test_lists_longer_than_the_keys_end_with_nothing(count):
    pair, matrix = make_pair("related", 40), exact_matrix("related", 40)
    backend = CpuBackend()
    backend.tile_rows = 16
    _, y = loss_sums(pair.x, pair.y, [0.05], backend, hardest=count)
    others = np.where(np.eye(40, dtype=bool), -np.inf, matrix.T)
    expected = np.full((40, count), -np.inf)
    expected[:, : min(count, 40)] = -np.sort(-others, axis=1)[:, :count]
    np.testing.assert_allclose(y.hardest, expected, rtol=0, atol=SIMILARITY_ERROR)


def test_some_rows_against_many_keys(backend):
    pair, matrix = make_pair("related", 100), exact_matrix("related", 100)
    backend.tile_rows = 16
    x, y = loss_sums(pair.x[:30], pair.y, TEMPERATURES, backend)
    for number, temperature in enumerate(TEMPERATURES):
        bound = 2e-6 + SIMILARITY_ERROR / temperature
        np.testing.assert_allclose(x.log_sums[number], log_sums(matrix[:30], temperature), rtol=0, atol=bound)
        np.testing.assert_allclose(y.log_sums[number], log_sums(matrix[:30].T, temperature), rtol=0, atol=bound)


@pytest.mark.parametrize("workers", [2, 5])
def test_threads_and_devices_change_no_bit_of_the_sums(workers):
    devices = pytest.importorskip("gcbs_cli.products.torch_device")
    pair = make_pair("hubs", ROWS)
    for one, several in (
        (CpuBackend(1), CpuBackend(workers)),
        (devices.TorchBackend(["cpu"]), devices.TorchBackend(["cpu"] * workers)),
    ):
        one.tile_rows = several.tile_rows = 30
        runs = [loss_sums(pair.x, pair.y, TEMPERATURES, backend, hardest=HARDEST) for backend in (one, several)]
        for mine, theirs in zip(*runs, strict=True):
            for name in mine.__dataclass_fields__:
                assert np.array_equal(getattr(mine, name), getattr(theirs, name)), name
