"""Data closer together than float32's rounding, and rows that repeat: exact edges, without a decision for each pair."""

import numpy as np
import pytest
import reference
from unit_data import unit

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products import canonical_values, double_search, edges
from gcbs_cli.products.edges import EdgeSearch, find_exceedances
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.quantile_sample import draw_sample
from gcbs_cli.products.repeated_rows import find_repeated
from gcbs_cli.products.top_candidates import find_candidates
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput


def tight(rows: int, spread: float = 1e-4, dim: int = 24) -> PairedRows:
    rng = np.random.default_rng(3)
    centre = rng.normal(size=(1, dim))
    return PairedRows(*(unit(centre + spread * rng.normal(size=(rows, dim))) for _ in "xy"))


def few_contents(rows: int, contents: int) -> PairedRows:
    """Rows of a tight cluster, each many times."""
    pool, rng = tight(contents), np.random.default_rng(4)
    return PairedRows(pool.x[rng.integers(contents, size=rows)], pool.y[rng.integers(contents, size=rows)])


def places(found: edges.Exceedances, rows: int) -> list[int]:
    return sorted((found.rows.astype(np.int64) * rows + found.cols).tolist())


@pytest.mark.parametrize("ties", [True, False])
@pytest.mark.parametrize("tile_rows", [None, 70])
@pytest.mark.parametrize("make", [tight, lambda rows: few_contents(rows, 20)], ids=["tight", "repeated"])
@pytest.mark.parametrize("many", [0, 1 << 15])
def test_entries_of_a_tight_cluster_are_those_of_brute_force(make, tile_rows, ties, many, monkeypatch) -> None:
    monkeypatch.setattr(canonical_values, "MANY_PAIRS", many)
    pair = make(300)
    exact = reference.similarity_matrix(pair.x, pair.y)
    threshold = float(np.quantile(exact, 0.99, method="inverted_cdf"))
    backend = NumpyBackend(workers=2)
    assert EdgeSearch(pair, threshold, backend).in_double
    found = find_exceedances(pair, threshold, backend, ties=ties, tile_rows=tile_rows)
    wanted = exact >= threshold if ties else exact > threshold
    assert places(found, 300) == np.flatnonzero(wanted).tolist()
    assert np.abs(found.values - exact[found.rows, found.cols]).max(initial=0.0) < 1e-14


@pytest.mark.parametrize("ties", [True, False])
def test_the_pass_with_lists_gives_the_same_entries(ties: bool) -> None:
    pair = tight(200)
    threshold = draw_sample(pair, 0.9, 0).threshold(0.9)
    alone = find_exceedances(pair, threshold, NumpyBackend(workers=1), ties=ties)
    beside = find_candidates(pair, threshold, 4, NumpyBackend(workers=1), ties=ties).exceedances
    assert beside is not None
    assert places(beside, 200) == places(alone, 200)


def test_ordinary_rows_stay_in_float32() -> None:
    rng = np.random.default_rng(0)
    pair = PairedRows(unit(rng.normal(size=(300, 16))), unit(rng.normal(size=(300, 16))))
    assert not EdgeSearch(pair, 0.6, NumpyBackend(workers=1)).in_double
    assert draw_sample(pair, 0.99, 0).shift == 0.0


@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("quantile", [0.01, 0.5, 0.9, 0.999])
def test_the_sample_of_a_tight_cluster_orders_its_entries_exactly(spread: float, quantile: float) -> None:
    pair = tight(150, spread)
    exact = np.sort(reference.similarity_matrix(pair.x, pair.y).reshape(-1))
    sample = draw_sample(pair, quantile, 0)
    assert sample.whole
    assert sample.shift != 0.0
    threshold = sample.threshold(quantile)
    assert threshold == exact[int(np.ceil(round(quantile * exact.size, 6))) - 1]
    assert sample.share_above(threshold) == np.count_nonzero(exact > threshold) / exact.size
    assert sample.share_reaching(threshold) == np.count_nonzero(exact >= threshold) / exact.size
    other = float(exact[exact.size // 3])
    assert sample.share_above(other) == np.count_nonzero(exact > other) / exact.size


def test_a_large_sample_of_equal_rows_is_not_needed() -> None:
    pair = tight(2500, 0.0)
    assert len(draw_sample(pair, 1.0 - 1e-4, 0).rows) == 2048


def test_repeated_rows_stand_for_all_their_entries() -> None:
    pair = few_contents(90, 6)
    repeated = find_repeated(pair)
    assert repeated is not None
    every = np.meshgrid(np.arange(len(repeated.pair.x)), np.arange(len(repeated.pair.y)), indexing="ij")
    ends = [side.reshape(-1).astype(np.int32) for side in every]
    rows, cols, stand_ins = repeated.expanded(*ends)
    assert repeated.entries(*ends) == 90 * 90
    assert sorted((rows.astype(np.int64) * 90 + cols).tolist()) == list(range(90 * 90))
    assert np.array_equal(pair.x[rows], repeated.pair.x[ends[0][stand_ins]])
    assert np.array_equal(pair.y[cols], repeated.pair.y[ends[1][stand_ins]])
    assert find_repeated(tight(50)) is None


def test_a_pass_that_finds_more_than_there_is_room_for_stops() -> None:
    with pytest.raises(BadInput, match=r"has found .* room for 1,000; use a higher --quantile"):
        find_exceedances(
            tight(300, 0.0), 0.5, NumpyBackend(workers=1), limit=EntryLimit(1000, "use a higher --quantile")
        )
    with pytest.raises(BadInput, match="room for 10;"):
        find_candidates(tight(100), 0.5, 3, NumpyBackend(workers=1), limit=EntryLimit(10, "use fewer"))


def test_equal_entries_are_counted_before_the_pass_where_suspects_need_them() -> None:
    pair = tight(700, 0.0)
    settings = PlanSettings.of(device="cpu", max_edges=100_000, quantile=0.999)
    assert sorted(make_plan(pair, settings).perm.tolist()) == list(range(700))
    suspecting = settings.changed(fn_margin=0.95, refine=True)
    with pytest.raises(BadInput, match=r"490,000 of them equal it.*leave out equal rows"):
        make_plan(pair, suspecting)


def test_the_trial_looks_at_rows_from_everywhere() -> None:
    pair = tight(5000)
    ordinary = np.random.default_rng(0).normal(size=(5000, 24))
    mixed = PairedRows(np.concatenate([pair.x, unit(ordinary)]), np.concatenate([pair.y, unit(ordinary)]))
    threshold = float(np.float64(pair.x[0]) @ np.float64(pair.y[0]))
    assert double_search.mostly_near(mixed, threshold, 1e-6)
