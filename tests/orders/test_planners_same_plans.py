"""Plans of fixed data by their bytes: what changes one changes users' plans, and belongs into the CHANGELOG.

PYTHONPATH=. python tests/orders/test_planners_same_plans.py prints the table as it is now.
"""

import hashlib

import numpy as np
import pytest

from gcbs_cli.api import plan
from gcbs_cli.orders.keeping_apart import keep_apart

ROWS = 523
PLANS = [
    ({"quantile": None}, "6e20b40d98b7"),
    ({}, "f45a27e3ba0f"),
    ({"method": "cm"}, "1c081f215274"),
    ({"quantile_method": "chunks", "quantile": 0.95}, "0fdc5b64644a"),
    ({"quantile_method": "exact", "quantile": None, "per_row": 20}, "3eb3afb6b093"),
    ({"graph": "top-m", "top": 7}, "5a0208621378"),
    ({"quantile": None, "rank_window": (2, 6)}, "4aab0f5ea8dc"),
    ({"drop_last": True, "no_duplicates": True}, "9cda6d06edd4"),
    ({"groups": 140, "no_duplicates": True}, "205056e2ca9d"),
    ({"groups": 16}, "c45ea12935c0"),
    ({"group_size": 4, "groups": 140}, "7d2d0d7e388d"),
    ({"shuffle_batches": True}, "23708e4f66ec"),
    ({"group_size": 1}, "7857d7fa5b02"),
    ({"refine": True}, "9b11ffdcef25"),
    ({"refine": True, "groups": 140, "temperature": 0.1, "batch_size": 2}, "97b9d7f11310"),
    ({"graph": "top-m", "refine": True, "fn_margin": 0.9}, "d07f63f1c35f"),
    ({"graph": "top-m", "top": 5, "refine": True, "no_duplicates": True, "batch_size": 30}, "36423f5d3fa9"),
    ({"refine": True, "batch_size": ROWS}, "f45a27e3ba0f"),
    ({"graph": "top-m", "refine": True, "batch_size": ROWS - 1}, "91039cd7380f"),
    ({"method": "metis"}, "6a9687bfa91b"),
    ({"method": "metis", "graph": "top-m", "refine": True, "groups": 140}, "063619d830c0"),
    ({"preset": "train"}, "e652154168d2"),
    ({"preset": "train", "method": "metis"}, "a7089a68aa8b"),
    ({"method": "random", "refine": True, "groups": 140}, "461930481b9d"),
    ({"method": "knn-groups"}, "d838e80617e6"),
    ({"method": "knn-groups", "bsc_skip_identical": True, "bsc_by": "x", "groups": 140}, "c1c0b2367935"),
    ({"method": "neighbours", "bsc_neighbours": 9}, "ea1e67db2293"),
    ({"method": "clusters", "bsc_clusters": 5}, "1298f6e7e4d3"),
    ({"method": "clusters", "groups": 140, "no_duplicates": True}, "3260bdb1d748"),
    ({"method": "words"}, "b64b7f6c9b8d"),
    ({"method": "words", "bsc_words": 2, "bsc_shingle": "consecutive", "groups": 140}, "ca488a18d66f"),
    ({"partitions": 3, "method": "metis"}, "7586456bf179"),
    ({"partitions": 4, "refine": True, "groups": 140}, "e5322e7c3688"),
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
        found.append(keep_apart(draws.permutation(62), labels, 5, 0))
    assert hashlib.sha256(np.concatenate(found).tobytes()).hexdigest()[:12] == "e993486d905f"


if __name__ == "__main__":
    for settings, _ in PLANS:
        print(f'    ({settings}, "{digest(settings)}"),')
