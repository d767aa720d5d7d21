"""Every figure of a report against tests/second_reading.py, which was written from the definitions alone."""

import numpy as np
import pytest
from second_reading import Case

from gcbs_cli.api import report_all
from gcbs_cli.reports.figures import FIGURES

ROWS, SEED = 53, 7
RANDOM_STREAM = 0x7121A1
"""Part of the seed of random orders: a report is to keep its figures from one version to the next."""

LOSSES = {
    "infonce": {},
    "symmetric": {},
    "simclr": {},
    "triplet": {"margin": 0.3},
    "triplet-of-no-margin": {"kind": "triplet", "margin": 0.0},
    "triplet-of-wide-margin": {"kind": "triplet", "margin": 1.0},
    "moco": {"kind": "infonce", "queue": 2, "queue_mode": "moco"},
    "xbm": {"kind": "infonce", "queue": 1},
    "xbm-both-ways": {"kind": "symmetric", "queue": 3},
    "top": {"kind": "symmetric", "top": 2},
    "top-views": {"kind": "simclr", "top": 5},
    "top-of-queue": {"kind": "symmetric", "queue": 2, "top": 9},
    "equal-x": {"kind": "bsc"},
    "ids": {"kind": "bsc", "positives": "ids"},
    "labels": {"kind": "bsc", "labels": "yes"},
    "labelled-ids": {"kind": "bsc", "positives": "ids", "labels": "yes", "divide_by": "all"},
    "graded": {"kind": "bsc", "labels": "grades", "label_threshold": 0.4, "divide_by": "all", "mse": 0.3},
    "mse-without-labels": {"kind": "bsc", "positives": "rows", "mse": 0.6},
    "coordinates": {"kind": "symmetric", "coordinates": "range"},
    "coordinates-labels": {"kind": "bsc", "positives": "rows", "labels": "yes", "coordinates": "min-max"},
    "coordinates-one-way": {"kind": "infonce", "coordinates": "l2"},
    "groups": {"kind": "symmetric", "groups": "ids"},
    "groups-and-ids": {"kind": "bsc", "positives": "halves", "groups": "ids"},
}
OPTIONS = {
    "queue": "queue",
    "queue_mode": "queue_mode",
    "top": "loss_top",
    "margin": "loss_margin",
    "label_threshold": "label_threshold",
    "divide_by": "bsc_divide_by",
    "mse": "bsc_mse",
    "coordinates": "batch_coordinates",
    "positives": "positives",
    "labels": "labels",
    "groups": "groups",
}


def widest_gap(values, low, high):
    """The middle of the widest gap between values in a range: rounding moves none of them across it."""
    inside = np.unique(np.concatenate([[low, high], values[(values > low) & (values < high)]]))
    at = np.argmax(np.diff(inside))
    assert inside[at + 1] - inside[at] > 0.02
    return float(inside[at : at + 2].mean())


def rows_with_ties(kind):
    """Rows of small whole numbers: many equal similarities, equal rows of either side, rows near to all."""
    rng = np.random.default_rng(5)
    x = rng.integers(0, 2, size=(ROWS, 6))
    y = np.where(rng.random(x.shape) < 0.8, x, rng.integers(0, 2, size=x.shape))
    x[~x.any(axis=1)], y[~y.any(axis=1)] = 1, 2
    if kind == "duplicates":
        x[10:20], y[10:20] = x[30:40], y[30:40]
        x[40:44] = x[3]
    if kind == "hubs":
        x[::9] = y[4::9][: len(x[::9])] = 1
    return x.astype(np.float32), y.astype(np.float32)


@pytest.mark.parametrize(
    ("data", "drop_last", "trials"), [("ties", True, 2), ("duplicates", False, 1), ("hubs", True, 3)]
)
@pytest.mark.parametrize("name", LOSSES)
def test_every_figure_is_that_of_the_definitions(name, data, drop_last, trials):
    x, y = rows_with_ties(data)
    rng = np.random.default_rng(3)
    given = {"ids": rng.integers(20, size=ROWS), "rows": np.arange(ROWS), "halves": np.arange(ROWS) // 2}
    given |= {"yes": rng.integers(2, size=ROWS), "grades": rng.random(ROWS)}
    asked = {"kind": name} | LOSSES[name]
    asked |= {option: given[asked[option]] for option in ("positives", "labels", "groups") if option in asked}
    similarity = Case(x, y, 2, 1.0, 1.0).s
    own = np.diag(similarity)
    settings = {
        "threshold": widest_gap(similarity, 0.7, 0.95),
        "fn_margin": widest_gap(similarity / np.minimum(own[:, None], own[None]), 0.7, 0.99),
        "drop_last": drop_last,
    }
    options = {OPTIONS[option]: value for option, value in asked.items() if option != "kind"}
    perm, sizes, temperatures = rng.permutation(ROWS), [8, 13, ROWS], [0.05, 0.7]
    orders = [np.random.default_rng([SEED, RANDOM_STREAM, trial]).permutation(ROWS) for trial in range(trials)]
    reports = report_all(
        x,
        y,
        perm,
        batch_sizes=sizes,
        temperatures=temperatures,
        loss=asked["kind"],
        trials=trials,
        seed=SEED,
        **settings,
        **options,
    )
    cases = [(size, temperature) for size in sizes for temperature in temperatures]
    for (size, temperature), report in zip(cases, reports, strict=True):
        expected = Case(x, y, size, temperature, **settings, **asked).figures(perm, orders)
        wrong = {}
        for path in (path for figure in FIGURES for path in (figure.path, figure.random) if path):
            value, wanted = report.at(path), expected.get(path)
            if value != (None if wanted is None else pytest.approx(wanted, rel=1e-5, abs=3e-6)):
                wrong[path] = value, wanted
        assert not wrong
        assert report.gap.oracle == 0 or size < ROWS or "top" in name  # to the bit, where a row sees all keys
