"""Plans of fixed data by their bytes: what changes one changes users' plans, and belongs into the CHANGELOG.

PYTHONPATH=. python tests/orders/test_planners_same_plans.py prints the table as it is now.
"""

import hashlib

import numpy as np
import pytest

from gcbs_cli.api import plan
from gcbs_cli.orders.keeping_apart import conflicts, keep_apart

ROWS = 523
PLANS = [
    ({}, "08d90d5315ac"),
    ({"method": "cm"}, "7fcbc84a34d5"),
    ({"quantile_method": "chunks", "quantile": 0.95}, "849b50448e9d"),
    ({"quantile_method": "exact", "quantile": None, "per_row": 20}, "7770bde6fcb6"),
    ({"graph": "top-m", "top": 7}, "5a0208621378"),
    ({"quantile": None, "rank_window": (2, 6)}, "4aab0f5ea8dc"),
    ({"drop_last": True, "no_duplicates": True}, "701b169a4efa"),
    ({"groups": 140, "no_duplicates": True}, "d8411557545f"),
    ({"groups": 16}, "5e583d15dd1b"),
    ({"group_size": 4, "groups": 140}, "f06388a444ac"),
    ({"shuffle_batches": True}, "5f1040df0cca"),
    ({"group_size": 1}, "cf18866c755a"),
    ({"refine": True}, "f3117a6e303f"),
    ({"refine": True, "groups": 140, "temperature": 0.1, "batch_size": 2}, "be0bf75e302c"),
    ({"graph": "top-m", "refine": True, "fn_margin": 0.9, "fn_weight": 0.3}, "ecd886c9fa14"),
    ({"refine": True, "fn_margin": 0.8, "apart_from": 0.97}, "d1bfc181c434"),
    ({"graph": "top-m", "top": 5, "refine": True, "no_duplicates": True, "batch_size": 30}, "464ecbba1001"),
    ({"refine": True, "batch_size": ROWS}, "08d90d5315ac"),
    ({"graph": "top-m", "refine": True, "batch_size": ROWS - 1}, "ec7349b21843"),
    ({"method": "metis"}, "eff707bca926"),
    ({"method": "metis", "graph": "top-m", "refine": True, "groups": 140}, "064863105eae"),
    ({"preset": "train"}, "93eaf04442b1"),
    ({"preset": "train", "method": "metis"}, "4f912c36d147"),
    ({"method": "random", "refine": True, "groups": 140}, "149b140b4d1e"),
    ({"method": "knn-groups"}, "d838e80617e6"),
    ({"method": "knn-groups", "bsc_skip_identical": True, "bsc_by": "x", "groups": 140}, "40cbdec156eb"),
    ({"method": "neighbours", "bsc_neighbours": 9}, "ea1e67db2293"),
    ({"method": "clusters", "bsc_clusters": 5}, "1298f6e7e4d3"),
    ({"method": "clusters", "groups": 140, "no_duplicates": True}, "340eb46d60f8"),
    ({"method": "words"}, "b64b7f6c9b8d"),
    ({"method": "words", "bsc_words": 2, "bsc_shingle": "consecutive", "groups": 140}, "c1f8de5c00e8"),
    ({"partitions": 3, "method": "metis"}, "3362d5d8544c"),
    ({"partitions": 4, "refine": True, "groups": 140}, "c6f739582dd5"),
]


def inputs():
    """Two sides of whole numbers, which no library rounds; some rows are equal, some near to many others."""
    rng = np.random.default_rng(9)
    x = rng.integers(-4, 5, size=(ROWS, 20))
    x[100:140] = x[:40]
    y = x + rng.integers(-3, 4, size=x.shape)
    y[::37] = x[:30].mean(axis=0).round() + 3
    return x.astype(np.float32), y.astype(np.float32)


def digest(settings):
    x, y = inputs()
    asked = {"batch_size": 16, "seed": 3, "device": "cpu", "quantile": 0.99} | settings
    if "groups" in asked:
        asked["groups"] = np.arange(ROWS) % asked["groups"]
    if asked.get("method") == "words":
        asked["texts"] = [" ".join(f"w{value}{place % 3}" for place, value in enumerate(row)) for row in x[:, :6]]
    if asked.keys() & {"preset", "graph"}:
        del asked["quantile"]
    perm = plan(x, y, **asked).perm
    assert np.array_equal(np.sort(perm), np.arange(ROWS))
    return hashlib.sha256(np.int64(perm).tobytes()).hexdigest()[:12]


@pytest.mark.parametrize(("settings", "seen"), PLANS)
def test_a_plan_has_the_bytes_that_it_had(settings, seen):
    assert digest(settings) == seen


def test_rows_kept_apart_have_the_places_that_they_had():
    draws, found = np.random.default_rng(0), []
    for kinds, count in 20 * [(1, 6), (2, 6), (3, 14)]:
        labels = np.stack([draws.permutation(62) % count for _ in range(kinds)])
        labels[draws.random(labels.shape) < 0.1] = -1
        found.append(keep_apart(draws.permutation(62), labels, 5))
        assert conflicts(found[-1], labels, 5) == 0
    assert hashlib.sha256(np.concatenate(found).tobytes()).hexdigest()[:12] == "0c3f0a3685e8"


if __name__ == "__main__":
    for settings, _ in PLANS:
        print(f'    ({settings}, "{digest(settings)}"),')
