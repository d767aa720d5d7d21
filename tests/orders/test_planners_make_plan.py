import re
from functools import partial

import numpy as np
import pytest
import reference
from unit_data import grid_matrix, make_pair

from gcbs_cli.planning.plan import make_plan
from gcbs_cli.planning.room import Forecast, check_room, forecast
from gcbs_cli.products.threshold import draw_sample, find_threshold
from gcbs_cli.reports.basis import ReportInputs
from gcbs_cli.settings.plan import PlanSettings, WorkSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import BadInput

ROWS = 120
GRAPHS = {
    "quantile": {"quantile": 0.95},
    "default": {},
    "per-row": {"per_row": 3},
    "threshold": {"threshold": 0.5},
    "exact": {"quantile": 0.9, "quantile_method": "exact"},
    "chunks": {"quantile": 0.9, "quantile_method": "chunks"},
    "least": {"quantile": 1e-300},
    "least-chunks": {"quantile": 1e-300, "quantile_method": "chunks"},
}


def expected_threshold(exact, graph):
    if "threshold" in graph:
        return graph["threshold"]
    q = 1 - graph["per_row"] / len(exact) if "per_row" in graph else graph.get("quantile", 0.999)
    return reference.quantile_of(exact, q)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("kind", ["related", "duplicates", "at-threshold", "cosine-1-1e-7", "hubs"])
def test_the_plan_is_cuthill_mckee_of_the_brute_force_graph(kind, graph, chosen_backend):
    pair, exact = make_pair(kind, ROWS), grid_matrix(kind, ROWS)
    threshold = expected_threshold(exact, graph)
    edges = reference.edges_above(exact, threshold)
    neighbours = reference.neighbours_of(ROWS, edges)
    for tile_rows, max_memory in ((None, None), (50, None), (None, 2**30)):
        found = make_plan(pair, PlanSettings(batch_size=16, **graph, chunk_rows=tile_rows, max_memory=max_memory))
        assert found.threshold is not None
        assert found.threshold.similarity == threshold
        assert found.perm.dtype == np.int64
        reference.check_reverse_cuthill_mckee(found.perm, neighbours)


def test_a_sampled_plan_is_that_of_the_samples_quantile(chosen_backend, monkeypatch):
    pair, exact = make_pair("related", 300), grid_matrix("related", 300)
    small = partial(draw_sample, least=100, most=100)
    monkeypatch.setattr("gcbs_cli.products.threshold.draw_sample", small)
    drawn = small(pair.grid, 0.99, 5)
    threshold = reference.quantile_of(exact[np.ix_(drawn.rows, drawn.cols)], 0.99)
    edges = reference.edges_above(exact, threshold)
    found = make_plan(pair, PlanSettings(batch_size=16, quantile=0.99, seed=5))
    reference.check_reverse_cuthill_mckee(found.perm, reference.neighbours_of(300, edges))


def test_the_figures_of_a_plan_are_those_of_brute_force(chosen_backend):
    exact = grid_matrix("related", ROWS)
    result = make_plan(make_pair("related", ROWS), PlanSettings(batch_size=16, quantile=0.97))
    threshold = reference.quantile_of(exact, 0.97)
    edges = reference.edges_above(exact, threshold)
    degrees = [len(near) for near in reference.neighbours_of(ROWS, edges)]
    figures = result.figures
    assert figures is not None
    assert (figures.edges, figures.isolated, figures.max_degree) == (len(edges), degrees.count(0), max(degrees))
    assert figures.achieved_quantile == pytest.approx(float((exact <= threshold).mean()), abs=1e-12)
    for measures, order in ((figures.identity, np.arange(ROWS)), (figures.plan, result.perm)):
        bandwidth, profile, share = reference.bandwidth_profile_share(edges, order, 16)
        assert (measures.bandwidth, measures.profile) == (bandwidth, profile)
        assert measures.in_batch_edge_share == pytest.approx(share)


@pytest.fixture
def no_pass(chosen_backend, monkeypatch):
    """A backend, and a pass that fails."""

    def fail(*_, **__):
        raise AssertionError("the pass was begun")

    monkeypatch.setattr("gcbs_cli.planning.plan.find", fail)
    return chosen_backend


@pytest.mark.parametrize("asked", [{"quantile": 0.99999}, {"threshold": 0.2}], ids=["q", "threshold"])
def test_a_sample_that_takes_too_much_is_not_drawn(asked, no_pass, monkeypatch):
    pair, limits = make_pair("related", 700), {"max_memory": 1 << 20, **asked}
    for user in ("products.threshold", "planning.room"):
        monkeypatch.setattr(f"gcbs_cli.{user}.draw_sample", None)
    with pytest.raises(BadInput, match="^--max-memory 1.0 MiB: the plan would need"):
        make_plan(pair, PlanSettings(**limits))
    with pytest.raises(BadInput, match="^--max-memory 1.0 MiB: the report would need"):
        ReportInputs(pair, ReportSettings(**limits))


def suggested_quantile(message):
    found = re.search(r"--quantile (0\.\d+) \(about [\d.e+-]+ a row\) or --max-\w+ \d+M? would fit", message)
    assert found, message
    return float(found[1])


@pytest.mark.parametrize("max_edges", [100, 48_999])
@pytest.mark.parametrize("asked", [{"quantile": 0.9}, {"threshold": 0.2}], ids=["q", "threshold"])
def test_too_many_edges_stop_before_the_pass_with_a_quantile_that_fits(asked, max_edges, no_pass):
    pair, settings = make_pair("related", 700), PlanSettings(batch_size=16, max_edges=max_edges, **asked)
    with pytest.raises(BadInput, match=rf"^--max-edges {max_edges:,}: ") as refused:
        make_plan(pair, settings)
    quantile = suggested_quantile(str(refused.value))
    assert 0.8 * max_edges <= (1 - quantile) * 700**2 <= max_edges
    with pytest.raises(AssertionError, match="the pass was begun"):
        make_plan(pair, settings.changed(quantile=quantile, threshold=None))


@pytest.mark.parametrize("asked", [{"graph": "top-m", "top": 80}, {"rank_window": (10, 30), "fn_margin": 0.9}])
def test_the_advice_for_lists_of_the_hardest_fits(asked):
    pair, settings = make_pair("related", 700), PlanSettings(batch_size=16, max_edges=19_600, **asked)
    with pytest.raises(BadInput, match=r"--max-edges (\d+) would fit, or use fewer rows") as refused:
        make_plan(pair, settings)
    advice = re.search(r"--max-edges (\d+) would", str(refused.value))
    assert make_plan(pair, settings.changed(max_edges=int(advice[1]))).figures


@pytest.mark.parametrize("max_edges", [37, 10**4, 10**8])
def test_the_quantile_named_for_a_million_rows_fits(max_edges):
    side = np.broadcast_to(np.float32([[1.0]]), (1_000_000, 1))
    with pytest.raises(BadInput) as refused:
        check_room(len(side), Forecast(0, 10**9), WorkSettings(), "a plan", "", max_edges)
    q = suggested_quantile(str(refused.value))
    assert 0 < q < 1
    assert 0.8 * max_edges <= round((1 - q) * 10**12) <= max_edges


def test_the_quantile_that_is_suggested_finds_no_more_edges_than_allowed():
    pair, most = make_pair("hubs", 2500), 20_000
    for seed in range(6):
        with pytest.raises(BadInput) as refused:
            make_plan(pair, PlanSettings(batch_size=16, quantile=0.99, seed=seed, max_edges=most))
        quantile = suggested_quantile(str(refused.value))
        made = make_plan(pair, PlanSettings(batch_size=16, quantile=quantile, seed=seed, max_edges=most))
        assert (1.0 - made.figures.achieved_quantile) * 2500**2 <= most


def test_a_random_plan_needs_no_products(chosen_backend, monkeypatch):
    def failing(*_):
        raise AssertionError("a product was asked for")

    monkeypatch.setattr(chosen_backend, "product", failing, raising=False)
    result = make_plan(make_pair("random", 50), PlanSettings(batch_size=5, method="random", seed=3))
    assert np.array_equal(result.perm, np.random.default_rng([3, 0x5EED]).permutation(50))
    assert (result.threshold, result.figures) == (None, None)


def test_two_rows_can_be_planned():
    assert sorted(make_plan(make_pair("random", 2), PlanSettings(batch_size=2)).perm.tolist()) == [0, 1]


def test_too_much_memory_stops_before_the_pass_with_a_quantile_that_fits(no_pass):
    pair, settings = make_pair("related", 700), PlanSettings(batch_size=16, quantile=0.5, refine=True)
    threshold = find_threshold(pair.grid, settings, 0, no_pass)
    needed = forecast(pair, threshold, [settings], no_pass).memory
    limit = needed - 10**7
    with pytest.raises(BadInput, match=r"^--max-memory .*would need about") as refused:
        make_plan(pair, settings.changed(max_memory=limit))
    q = suggested_quantile(str(refused.value))
    assert 0.5 < q < 1
    with pytest.raises(AssertionError, match="the pass was begun"):
        make_plan(pair, settings.changed(quantile=q, max_memory=limit))


def test_the_forecast_of_entries_is_near(chosen_backend):
    pair, exact = make_pair("related", 700), grid_matrix("related", 700)
    for graph in ({"quantile": 0.9}, {"per_row": 20}, {"threshold": 0.3}):
        settings = PlanSettings(batch_size=16, **graph)
        threshold = find_threshold(pair.grid, settings, 0, chosen_backend)
        expected = forecast(pair, threshold, [settings], chosen_backend)
        assert expected.entries == pytest.approx(np.count_nonzero(exact > threshold.similarity), abs=2)
