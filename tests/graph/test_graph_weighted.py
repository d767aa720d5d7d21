"""Which edges are too hard to share a batch."""

import numpy as np
from unit_data import make_pair

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import adjacency_from_pairs
from gcbs_cli.graph.weighted import weigh
from gcbs_cli.settings.plan import FalseNegativeSettings


def test_an_edge_as_similar_as_the_margin_of_a_positive_is_too_hard_and_costs_its_weight():
    pair = make_pair("related", 40)
    x, y = pair.x.copy(), pair.y.copy()
    x[1], y[1] = x[0], y[0]  # s_01 = s_00 = s_11, to the last bit
    pair = PairedRows(x, y)
    pairs = np.array([[0, 2, 4, 6], [1, 3, 5, 7]], np.int32)
    graph = adjacency_from_pairs(40, *pairs)
    found = weigh(graph, pair, FalseNegativeSettings(fn_margin=1.0, fn_weight=0.5))
    similarity = x.astype(np.float64) @ y.T.astype(np.float64)
    either = np.maximum(similarity, similarity.T)
    wanted = [either[i, j] >= min(similarity[i, i], similarity[j, j]) - 1e-7 for i, j in pairs.T]
    assert wanted[0]
    rows = graph.row_of_entry()
    assert {int(row): bool(hard) for row, hard in zip(rows, found.apart, strict=True) if row % 2 == 0} == dict(
        zip(pairs[0].tolist(), map(bool, wanted), strict=True)
    )
    assert np.array_equal(found.costs, np.where(found.apart, np.float32(0.5), 0))
