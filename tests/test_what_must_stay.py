"""What stays when the data changes in ways that mean nothing: plans and edges to the bit, losses but for rounding."""

import numpy as np
import pytest

from gcbs_cli.api import plan, report
from gcbs_cli.reports.figures import FIGURES

ROWS, SIZE, DIM, APPENDED = 300, 10, 24, 20
SAME = np.arange(ROWS)
RNG = np.random.default_rng(0)
SHUFFLED, COLUMNS = RNG.permutation(ROWS), RNG.permutation(DIM)
ROTATION = np.linalg.qr(RNG.normal(size=(DIM, DIM)))[0]
CHANGES = {
    "dimensions permuted": lambda x, y: (x[:, COLUMNS], y[:, COLUMNS], SAME),
    "sides swapped": lambda x, y: (y, x, SAME),
    "signs turned": lambda x, y: (-x, -y, SAME),
    "rows lengthened": lambda x, y: (x * np.float32(8), y * np.float32(0.5), SAME),
    "read as doubles": lambda x, y: (np.float64(x), np.float64(y), SAME),
    "rows permuted": lambda x, y: (x[SHUFFLED], y[SHUFFLED], SHUFFLED),
    "both sides rotated": lambda x, y: (x @ ROTATION, y @ ROTATION, SAME),
}
PLANS = {
    "rcm": {"quantile": 0.98, "quantile_method": "exact"},
    "metis": {"quantile": 0.98, "quantile_method": "exact", "method": "metis"},
    "refined": {"graph": "top-m", "refine": True},
    "kept-apart": {"graph": "top-m", "refine": True, "fn_margin": 0.95},
    "knn-groups": {"method": "knn-groups"},
}


def rows_of(kind):
    """Clusters, or rows of few whole numbers: ties everywhere, and equal rows."""
    rng = np.random.default_rng(1)
    if kind == "ties":
        x = np.repeat(rng.integers(-1, 2, size=(ROWS // 3, DIM)), 3, axis=0)
        return x.astype(np.float32), (x + rng.integers(0, 2, size=x.shape)).astype(np.float32)
    x = rng.normal(size=(ROWS, DIM)) + np.repeat(rng.normal(size=(ROWS // 10, DIM)), 10, axis=0)
    return np.float32(x), np.float32(x + 0.7 * rng.normal(size=x.shape))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("kind", ["clusters", "ties"])
@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("rows permuted", "both sides rotated")])
def test_the_grid_gives_the_same_plan_to_the_bit(change, kind, name):
    x, y = rows_of(kind)
    changed = CHANGES[change](x, y)[:2]
    assert np.array_equal(
        plan(*changed, batch_size=SIZE, **PLANS[name]).perm, plan(x, y, batch_size=SIZE, **PLANS[name]).perm
    )


@pytest.mark.parametrize("loss", ["symmetric", "simclr", "bsc"])
@pytest.mark.parametrize("kind", ["clusters", "ties"])
@pytest.mark.parametrize("change", CHANGES)
def test_the_figures_of_a_plan_stay(change, kind, loss):
    """A rotation moves similarities on the grid by less than 0.01, so it alone may move edges across the threshold."""
    x, y = rows_of(kind)
    perm = np.random.default_rng(2).permutation(ROWS)
    other_x, other_y, row = CHANGES[change](x, y)
    asked = {"batch_size": SIZE, "loss": [loss], "quantile": 0.98, "quantile_method": "exact", "trials": 2}
    ids = np.arange(ROWS) // 7
    ours, theirs = (
        report(*sides, order, **asked, **({"positives": of} if loss == "bsc" else {}))
        for sides, order, of in (((x, y), perm, ids), ((other_x, other_y), np.argsort(row)[perm], ids[row]))
    )
    may_differ = {
        "both sides rotated": ("graph", "bandwidth", "profile", "in_batch_edge_share", "false_negatives", "gap.masked"),
        "rows permuted": ("bandwidth.identity", "profile.identity"),
        "sides swapped": ("uniformity", "accuracy"),
    }.get(change, ())
    for path in (path for figure in FIGURES for path in (figure.path, figure.random) if path):
        value = ours.at(path)
        random = change == "rows permuted" and ("random" in path or path.endswith(("reduction", "closed_share")))
        if value is not None and not random and not path.startswith(may_differ):
            assert theirs.at(path) == pytest.approx(value, rel=1e-5, abs=1e-5), path
    assert theirs.graph.threshold == pytest.approx(ours.graph.threshold, abs=0.01)
    assert theirs.graph.edges == pytest.approx(ours.graph.edges, rel=0.02)


@pytest.mark.parametrize("kind", ["clusters", "ties"])
def test_rows_that_nobody_is_near_change_nothing_for_the_others(kind):
    """A coordinate of its own for each: their similarity is 1 with their positive and 0 with all else."""
    x, y = rows_of(kind)
    alone = np.eye(APPENDED, DIM + APPENDED, DIM, dtype=np.float32)
    more = [np.concatenate([np.pad(side, ((0, 0), (0, APPENDED))), alone]) for side in (x, y)]
    threshold = {"clusters": 0.7943, "ties": 0.704}[kind]  # amid the widest gap between similarities
    asked = {"threshold": threshold, "batch_size": SIZE}
    perm, longer = (plan(*sides, **asked).perm for sides in ((x, y), more))
    ours = report(x, y, perm, temperature=0.5, **asked)
    theirs = report(*more, np.append(perm, np.arange(ROWS, ROWS + APPENDED)), temperature=0.5, **asked)
    u, v = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (x, y))
    hard = (u @ v.T > threshold) & ~np.eye(ROWS, dtype=bool)
    linked = np.flatnonzero((hard | hard.T).any(axis=1))
    assert np.array_equal(longer[np.isin(longer, linked)], perm[np.isin(perm, linked)])
    for path in ("graph.edges", "bandwidth.plan", "profile.plan", "in_batch_edge_share.plan"):
        assert theirs.at(path) == ours.at(path), path
    assert theirs.false_negatives.suspected_pairs == ours.false_negatives.suspected_pairs
    assert theirs.graph.isolated == ours.graph.isolated + APPENDED
    of_alone = np.log(1 + (SIZE - 1) * np.exp(-1 / 0.5))
    mean = (ROWS * ours.loss.plan + APPENDED * of_alone) / (ROWS + APPENDED)
    assert theirs.loss.plan == pytest.approx(mean, abs=1e-5)
