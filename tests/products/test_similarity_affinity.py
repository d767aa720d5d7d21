"""Plans for self-supervised views against the affinity matrix in float64."""

import numpy as np
import pytest
import reference
from unit_data import make_pair

from gcbs_cli.planning.forecast import forecast
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products import quantile_sample
from gcbs_cli.products.affinity import affinities, draw_affinity_sample
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress

ROWS = 110
KINDS = ["related", "duplicates", "at-threshold", "cosine-1-1e-7", "hubs", "all-equal"]


def affinity_matrix(pair):
    """(N, N) from the definition; a pair with itself has the similarity of its positive."""
    across = reference.similarity_matrix(pair.x, pair.y)
    sides = [reference.similarity_matrix(side, side) for side in (pair.x, pair.y)]
    matrix = np.maximum.reduce([across, across.T, *sides])
    np.fill_diagonal(matrix, np.diag(across))
    return matrix


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "graph", [GraphSettings(quantile=0.93, pairs="all"), GraphSettings(threshold=0.5, pairs="all")], ids=["q", "t"]
)
def test_the_plan_is_cuthill_mckee_of_the_affinity_graph(kind, graph, chosen_backend):
    pair = make_pair(kind, ROWS)
    matrix = affinity_matrix(pair)
    threshold = graph.threshold if graph.threshold is not None else reference.quantile_of(matrix, 0.93)
    edges = reference.edges_above(matrix, threshold)
    order = reference.cuthill_mckee(reference.neighbours_of(ROWS, edges))[::-1]
    for tile_rows in (None, 33):
        found = make_plan(pair, PlanSettings(16, graph, tile_rows=tile_rows))
        assert found.threshold is not None
        assert found.threshold.value == threshold
        assert np.array_equal(found.perm, order)
        assert found.figures is not None
        assert found.figures.edges == len(edges)
        assert found.figures.achieved_quantile == pytest.approx(np.mean(matrix <= threshold), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampled_threshold_is_that_of_the_sampled_affinities(kind, monkeypatch):
    monkeypatch.setattr(quantile_sample, "LEAST_SAMPLE_ROWS", 60)
    monkeypatch.setattr(quantile_sample, "MOST_SAMPLE_ROWS", 60)
    pair = make_pair(kind, ROWS)
    matrix = affinity_matrix(pair)
    sample = draw_affinity_sample(pair, 0.95, 4)
    part = matrix[np.ix_(sample.rows, sample.cols)]
    threshold = sample.threshold(0.95)
    assert threshold == reference.quantile_of(part, 0.95)
    assert sample.share_above(threshold) == np.mean(part > threshold)
    settings = PlanSettings(16, GraphSettings(threshold=threshold, pairs="all"), seed=4)
    expected = forecast(pair, find_threshold(pair, settings.graph, 4, _backend(), Progress()), settings, _backend())
    assert expected.entries == round(np.mean(part > threshold) * ROWS**2)


def _backend():
    from gcbs_cli.products.numpy_backend import NumpyBackend

    return NumpyBackend(1)


def test_affinities_of_pairs_are_those_of_the_matrix():
    pair = make_pair("related", ROWS)
    rows, cols = np.random.default_rng(0).integers(ROWS, size=(2, 500))
    assert affinities(pair, rows, cols).tolist() == affinity_matrix(pair)[rows, cols].tolist()


@pytest.mark.parametrize(
    "settings", [{"kind": "top-m"}, {"method": "exact"}, {"rank_window": (1, 2)}, {"pairs": "some"}], ids=str
)
def test_what_does_not_go_together_is_refused(settings):
    with pytest.raises(BadInput, match="--pairs"):
        GraphSettings(**{"pairs": "all", **settings})
