"""What every planning method promises: a permutation, full batches but the last, the same bytes for the same seed."""

import numpy as np
import pytest
from unit_data import make_pair

from gcbs_cli.orders import PLANNERS
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings

METHODS = [name for name in PLANNERS if name != "words"]  # words needs texts, and has tests of its own
ROWS, SIZE = 203, 16


def check(perm: np.ndarray, rows: int) -> None:
    assert perm.dtype == np.int64
    assert perm.shape == (rows,)
    assert sorted(perm.tolist()) == list(range(rows))


@pytest.mark.parametrize("graph", ["quantile", "top-m"])
@pytest.mark.parametrize("refine", [False, True], ids=["plain", "refined"])
@pytest.mark.parametrize("method", METHODS)
def test_method_gives_a_permutation_and_the_same_bytes_for_the_same_seed(method: str, refine: bool, graph: str) -> None:
    if method == "metis":
        pytest.importorskip("pymetis")
    pair = make_pair("related", ROWS)
    settings = PlanSettings(batch_size=SIZE, method=method, refine=refine, seed=5, graph=graph, top=4, quantile=0.98)
    first, second = (make_plan(pair, settings).perm for _ in range(2))
    check(first, ROWS)
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(
    "settings",
    [
        PlanSettings(batch_size=SIZE, group_size=4, refine=True),
        PlanSettings(batch_size=SIZE, group_size=1, refine=True),
        PlanSettings(batch_size=SIZE, shuffle_batches=True),
        PlanSettings(batch_size=SIZE, fn_margin=0.9, refine=True),
        PlanSettings(batch_size=SIZE, rank_window=(2, 10), no_duplicates=True, refine=True),
        PlanSettings(batch_size=ROWS, refine=True),
        PlanSettings(batch_size=ROWS - 1, refine=True, graph="top-m"),
    ],
    ids=["groups", "groups-of-1", "shuffled", "margin", "window", "k=N", "k=N-1"],
)
def test_every_option_keeps_a_permutation(settings: PlanSettings) -> None:
    check(make_plan(make_pair("related", ROWS), settings).perm, ROWS)


@pytest.mark.parametrize("kind", ["all-equal", "duplicates", "at-threshold", "hubs", "one-dimension"])
def test_ties_and_hubs_do_not_matter(kind: str) -> None:
    settings = PlanSettings(batch_size=8, refine=True, graph="top-m", top=3)
    check(make_plan(make_pair(kind, 61), settings).perm, 61)
