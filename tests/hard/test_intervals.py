"""How often the 95 % intervals of `gcbs report --rows` hold the figure of the whole report."""

from collections import Counter

import numpy as np
import pytest
from running import SAMPLE

from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.reading import PairStream
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.reports.losses import make_reports
from gcbs_cli.reports.sampled import sampled_report
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings

FIGURES = ("loss.global", "loss.plan", "loss.random_mean", "gap.plan", "gap.random_mean", "gap.reduction")
BATCHES = 30
LEAST_SHARE = 0.88
"""Of 100 seeds a true 95 % gives 91 to 99; L_train, whose losses are skewed, has 93.5 % in the long run."""


@pytest.mark.parametrize("batch_size", [8, 16])
def test_intervals_hold_the_whole_reports_figure(batch_size, seeds):
    stream = PairStream(*open_pair(str(SAMPLE / "x.npy"), str(SAMPLE / "y.npy")))
    pairs = stream.read()
    perm = make_plan(pairs, PlanSettings(batch_size=batch_size)).perm
    settings = ReportSettings(batch_sizes=(batch_size,), drop_last=True)
    whole = make_reports(pairs, perm, settings.changed(trials=100))[0]
    hits, tries = Counter(), seeds(100)
    for seed in tries:
        sampled = sampled_report(stream, perm, BATCHES * batch_size, settings.changed(seed=seed))
        for figure in FIGURES:
            estimate = sampled.at(figure)
            hits[figure] += estimate.low <= whole.at(figure) <= estimate.high
    shares = {figure: hits[figure] / len(tries) for figure in FIGURES}
    print(shares)
    assert np.min(list(shares.values())) >= LEAST_SHARE
