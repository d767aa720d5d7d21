"""METIS: parts of exactly k rows in an order that keeps like parts together."""

import sys

import numpy as np
import pytest
from unit_data import make_pair

from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.orders.metis import fit_parts, plan_metis
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput


def test_cliques_become_batches() -> None:
    pytest.importorskip("pymetis")
    groups = np.random.default_rng(0).permutation(96).reshape(12, 8).tolist()
    pairs = np.array([(i, j) for group in groups for i in group for j in group if i < j], np.int32)
    graph = adjacency_from_pairs(96, pairs[:, 0], pairs[:, 1])
    perm = plan_metis(graph, np.ones(len(graph.indices), np.float32), 8, 0)
    batches = {frozenset(batch) for batch in perm.reshape(-1, 8).tolist()}
    assert batches == {frozenset(group) for group in groups}


def test_parts_are_made_to_fit_by_moving_the_rows_that_lose_least() -> None:
    # Rows 0 to 4 in part 0, 5 to 7 in part 1; row 4 hangs on 3 by little and on 5 by more.
    edges = {(0, 1): 3.0, (0, 2): 3.0, (1, 2): 3.0, (2, 3): 2.0, (3, 4): 0.5, (4, 5): 1.0, (5, 6): 2.0, (6, 7): 2.0}
    ends = np.array(list(edges), np.int32)
    graph = adjacency_from_pairs(8, ends[:, 0], ends[:, 1])
    rows = graph.row_of_entry()
    worth = np.array([edges[min(i, j), max(i, j)] for i, j in zip(rows, graph.indices, strict=True)], np.float32)
    fitted = fit_parts(np.array([0, 0, 0, 0, 0, 1, 1, 1]), np.array([4, 4]), graph, worth)
    assert fitted.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_missing_library_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(BadInput, match=r'pip install "gcbs\[metis\]"'):
        make_plan(make_pair("related", 40), PlanSettings(batch_size=8, method="metis"))
