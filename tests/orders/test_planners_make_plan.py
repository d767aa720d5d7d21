import re

import numpy as np
import pytest
import reference
from unit_data import grid_matrix, make_pair

from gcbs_cli.planning.memory import forecast_plan, forecast_plans
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.threshold import draw_sample
from gcbs_cli.reports.basis import ReportInputs
from gcbs_cli.settings.plan import PlanSettings
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
    entries = np.sort(reference.off_diagonal(exact))
    if "quantile" in graph:
        return reference.quantile_of(entries, graph["quantile"])
    return entries[len(entries) - graph.get("per_row", 32) * len(exact) - 1]


@pytest.mark.parametrize("chosen", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("kind", ["related", "duplicates", "at-threshold", "cosine-1-1e-7", "hubs"])
def test_the_plan_is_cuthill_mckee_of_the_brute_force_graph(kind, chosen, chosen_backend):
    pair, exact = make_pair(kind, ROWS), grid_matrix(kind, ROWS)
    threshold = expected_threshold(exact, chosen)
    edges = reference.edges_above(exact, threshold)
    neighbours = reference.neighbours_of(ROWS, edges)
    degrees = [len(near) for near in neighbours]
    for tile_rows, max_memory in ((None, None), (50, None), (None, 2**30)):
        found = make_plan(pair, PlanSettings(batch_size=16, **chosen, chunk_rows=tile_rows, max_memory=max_memory))
        assert found.threshold is not None
        assert found.threshold.similarity == threshold
        assert found.perm.dtype == np.int64
        reference.check_reverse_cuthill_mckee(found.perm, neighbours)
        graph = found.figures.graph
        assert (graph.edges, graph.isolated, graph.max_degree) == (len(edges), degrees.count(0), max(degrees))


def test_a_sampled_plan_is_that_of_the_samples_quantile(chosen_backend, monkeypatch):
    pair, exact = make_pair("related", 300), grid_matrix("related", 300)
    for name in ("LEAST_ROWS", "MOST_ROWS"):
        monkeypatch.setattr(f"gcbs_cli.products.threshold.{name}", 100)
    drawn = draw_sample(pair.grid, 0.99, 5)
    apart = np.where(np.eye(300), np.nan, exact)[np.ix_(drawn.rows, drawn.cols)]
    threshold = reference.quantile_of(apart[~np.isnan(apart)], 0.99)
    edges = reference.edges_above(exact, threshold)
    found = make_plan(pair, PlanSettings(batch_size=16, quantile=0.99, seed=5))
    reference.check_reverse_cuthill_mckee(found.perm, reference.neighbours_of(300, edges))


@pytest.fixture
def no_pass(chosen_backend, monkeypatch):
    """A backend, and a pass that fails."""

    def fail(*_, **__):
        raise AssertionError("the pass was begun")

    monkeypatch.setattr("gcbs_cli.planning.plan.find", fail)
    return chosen_backend


@pytest.mark.parametrize("limit", ["quantile", "threshold"])
def test_a_plan_or_report_that_takes_too_much_stops_before_any_pass(limit, no_pass, monkeypatch):
    pair, limits = make_pair("related", 700), {"max_memory": 1 << 20, limit: 0.2}
    for room in ("planning.plan", "reports.basis"):
        monkeypatch.setattr(f"gcbs_cli.{room}.find_threshold", None)
    with pytest.raises(
        BadInput, match=r"^--max-memory 1.0 MiB: the plan would need about .*M would fit, or lower --per"
    ):
        make_plan(pair, PlanSettings(**limits))
    with pytest.raises(BadInput, match=r"^--max-memory 1.0 MiB: the report would need about .* by --rows"):
        ReportInputs(pair, ReportSettings(**limits))


GRAPH_KINDS = {
    "quantile": ({"quantile": 0.9}, 48_930),
    "per-row": ({"per_row": 20}, 14_000),
    "threshold": ({"threshold": 0.3}, 59_226),
    "top-m": ({"graph": "top-m", "top": 80}, 112_000),
    "window": ({"rank_window": (10, 30)}, 21_000),
}


@pytest.mark.parametrize(("graph", "entries"), GRAPH_KINDS.values(), ids=GRAPH_KINDS)
def test_what_is_refused_fits_with_the_limit_or_the_entries_that_are_named(graph, entries, no_pass):
    pair, settings = make_pair("related", 700), PlanSettings(batch_size=16, **graph)
    forecast = forecast_plans(pair, [settings], no_pass)
    assert forecast.entries == pytest.approx(entries, rel=0.01)
    limited = settings.changed(max_memory=forecast.bytes - forecast.entry_bytes * forecast.entries // 2)
    with pytest.raises(BadInput, match=r"^--max-memory .*would need about") as refused:
        make_plan(pair, limited)
    larger = re.search(r"--max-memory (\d+)M would fit", str(refused.value))
    a_row = re.search(r"; ([\d.]+) entries a row would fit", str(refused.value))
    smaller = PlanSettings(batch_size=16, max_memory=limited.max_memory, per_row=0.95 * float(a_row[1]))
    for fits in (settings.changed(max_memory=f"{larger[1]}M"), smaller):
        with pytest.raises(AssertionError, match="the pass was begun"):
            make_plan(pair, fits)


def test_more_edges_than_there_is_room_for_end_the_pass(monkeypatch):
    pair, settings = make_pair("related", 700), PlanSettings(batch_size=16, quantile=0.9)
    # As a sample can misjudge data with many equal rows.
    monkeypatch.setattr("gcbs_cli.planning.memory.entries_above", lambda *_: 10)
    forecast = forecast_plans(pair, [settings], choose_backend("cpu"))
    with pytest.raises(BadInput, match=r"memory has room for 1,\d\d\d; use a smaller --per-row"):
        make_plan(pair, settings.changed(max_memory=forecast.fixed + 1500 * forecast.entry_bytes))


def test_a_million_rows_of_768_dimensions_fit_into_16_gib_by_default():
    forecast = forecast_plan(10**6, 768, PlanSettings(), CpuBackend(16))
    assert forecast.bytes < 16 * 2**30


def test_a_random_plan_needs_no_products(chosen_backend, monkeypatch):
    def failing(*_):
        raise AssertionError("a product was asked for")

    monkeypatch.setattr(chosen_backend, "product", failing, raising=False)
    result = make_plan(make_pair("random", 50), PlanSettings(batch_size=5, method="random", seed=3))
    assert np.array_equal(result.perm, np.random.default_rng([3, 0x5EED]).permutation(50))
    assert (result.threshold, result.figures) == (None, None)


@pytest.mark.parametrize("rows", [2, 3, 20, 33, 34, 66, 200])
def test_by_default_nearly_every_row_has_a_hard_pair_however_few_there_are(rows):
    figures = make_plan(make_pair("related", rows), PlanSettings(batch_size=2)).figures
    assert figures.graph.isolated <= rows / 10
    assert figures.achieved_quantile == pytest.approx(1 - min(32 / (rows - 1), 0.5), abs=1 / rows)
