"""Lists made from all keys: against a sort of the canonical similarities, however many of these are equal."""

import numpy as np
import pytest
from unit_data import make_pair

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products import hardest_keys
from gcbs_cli.products.backend import float32_error
from gcbs_cli.products.canonical_values import canonical_values
from gcbs_cli.products.hardest import likely_candidates, likely_thresholds
from gcbs_cli.products.hardest_keys import HardestKeys, hardest_of
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.tiles import Tile
from gcbs_cli.products.top_candidates import TopCollector

ROWS = 90


def wide_tight(rows: int) -> PairedRows:
    """Rows of one cluster, tighter than float32's rounding."""
    sides = 1.0 + 1e-5 * np.random.default_rng(1).normal(size=(2, rows, 16))
    return PairedRows(*(sides / np.linalg.norm(sides, axis=2, keepdims=True)).astype(np.float32))


def tight(seed: int = 0) -> PairedRows:
    """Rows that differ by less than float32's rounding of their products, some of them equal."""
    rng = np.random.default_rng(seed)
    sides = []
    for _ in range(2):
        rows = 1.0 + 1e-5 * rng.normal(size=(ROWS, 16))
        rows[::7] = rows[3]
        sides.append((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32))
    return PairedRows(*sides)


RANDOM = make_pair("random", ROWS)
PAIRS = {
    "tight": tight(),
    "equal x": PairedRows(np.repeat(RANDOM.x[:1], ROWS, axis=0), RANDOM.y),
    "equal y": PairedRows(RANDOM.x, np.repeat(RANDOM.y[:1], ROWS, axis=0)),
    **{kind: make_pair(kind, ROWS) for kind in ("related", "duplicates", "all-equal", "cosine-1-1e-7", "at-threshold")},
}


def sorted_lists(pair: PairedRows, side: int, top: int) -> np.ndarray:
    """The lists by a sort of all canonical values."""
    rows, cols = np.divmod(np.arange(ROWS * ROWS), ROWS)
    values = canonical_values(pair, rows, cols).reshape(ROWS, ROWS)
    values = values if side == 0 else values.T
    lists = np.lexsort((np.broadcast_to(np.arange(ROWS), values.shape), -values), axis=1)
    return lists[lists != np.arange(ROWS)[:, None]].reshape(ROWS, ROWS - 1)[:, :top]


@pytest.mark.parametrize("top", [1, 4, ROWS - 1])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS.keys())
def test_lists_from_all_keys(pair: PairedRows, side: int, top: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = np.sort(sorted_lists(pair, side, top), axis=1)
    for entries in (1, 1 << 22):  # one row at once, and all
        monkeypatch.setattr(hardest_keys, "FULL_ENTRIES", entries)
        assert (np.sort(hardest_of(pair, side, np.arange(ROWS), top), axis=1) == expected).all()
    some = np.array([5, 3, 80, 7, 14])
    assert (np.sort(hardest_of(pair, side, some, top), axis=1) == expected[some]).all()


def test_a_tight_cluster_goes_through_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, calls = tight(), []
    right = HardestKeys._in_double
    monkeypatch.setattr(HardestKeys, "_in_double", lambda self, part: calls.append(len(part)) or right(self, part))
    hardest_of(pair, 0, np.arange(ROWS), 4)
    assert sum(calls) > ROWS // 2
    calls.clear()
    hardest_of(make_pair("random", ROWS), 0, np.arange(ROWS), 4)
    assert not calls


def test_rounding_alone_makes_no_candidates(backend) -> None:
    rows = np.repeat(make_pair("random", 3000).x[:1], 3000, axis=0)
    for pair in (PairedRows(rows, rows), wide_tight(3000)):
        collectors = [TopCollector(pair, side, 4, backend, 0) for side in range(2)]
        product = backend.product(backend.load(pair.x), backend.load(pair.y), slice(0, 500), slice(0, 3000))
        tile = Tile(slice(0, 500), slice(0, 3000))
        assert sum(len(collector.of_tile(product, tile).values) for collector in collectors) == 0
    loose = make_pair("random", 3000)
    assert np.isfinite(TopCollector(loose, 0, 4, backend, 0).limits).all()


def test_how_many_candidates_to_expect() -> None:
    pair, backend = make_pair("random", 5000), NumpyBackend(workers=1)
    for count in (1, 16, 100):
        limits = likely_thresholds(pair.x, pair.y, count, backend, 0)
        found = float(np.mean(pair.x[:200] @ pair.y.T > limits[:200, None])) * 5000
        assert found == pytest.approx(likely_candidates(count, 5000), rel=0.15)
    assert likely_candidates(60, 100) == 100
    assert likely_candidates(16, 10**6) < 400  # the sample grows with the rows


def test_the_error_decides_what_is_undecided() -> None:
    pair = tight()
    keys = HardestKeys(pair, 0, 3, float32_error(pair.dim))
    table = pair.x @ pair.y.T
    assert keys._undecided(table, 3) > 0.5
    assert HardestKeys(pair, 0, 3, 0.0)._undecided(table, 3) < 0.5
