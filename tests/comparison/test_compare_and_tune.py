"""compare and tune make the plans that `gcbs plan` makes, and tune finds one that fits where there is one."""

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
from typer.testing import Result

from gcbs_cli.comparison.compare import compare_methods
from gcbs_cli.comparison.history import recurring_pairs
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.progress import Progress
from tests.cli.conftest import SAMPLE, folder, gcbs, sample

__all__ = ["folder", "gcbs", "sample"]

ROWS = 2500
"""More than a sample of the quantile has, so that its threshold depends on the seed."""


def clustered(rows: int, seed: int = 0) -> PairedRows:
    """Pairs in clusters of about 25."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(rows // 25, 24))[generator.integers(rows // 25, size=rows)]
    sides = (centres + 0.7 * generator.normal(size=centres.shape) for _ in "xy")
    return PairedRows(*(np.float32(side / np.linalg.norm(side, axis=1, keepdims=True)) for side in sides))


def test_what_recurs_is_what_recurs_in_two_plans() -> None:
    pair, settings = clustered(ROWS), PlanSettings(batch_size=32, quantile=0.99)
    first, second = (make_plan(pair, settings.changed(seed=seed)) for seed in (0, 1))
    assert first.threshold != second.threshold
    line = compare_methods(pair, settings, ["rcm"], Progress(), trials=1, recurrence=True)[0]
    assert line.recurring == recurring_pairs(first.perm, second.perm, 32)
    assert line.recurring < 1.0


def test_tune_goes_on_from_the_plan_that_is_nearest_to_the_cap(gcbs: Callable[..., Result], sample: Path) -> None:
    best = ("--method", "metis", "--graph", "top-m", "--refine", "--fn-margin", 0.95, "--fn-weight", 3)
    made = gcbs("plan", "x.npy", "y.npy", "-k", 16, "-o", "p.npy", *best, "--json")
    assert json.loads(made.stdout)["method_settings"]["false_negatives"]["suspected_inside"] < 20
    result = gcbs("tune", "x.npy", "y.npy", "-k", 16, "--max-suspected", 20, "--budget", "100s", "--json")
    assert json.loads(result.stdout)["command"] is not None


def test_the_command_of_tune_is_one_line(gcbs: Callable[..., Result], folder: Path) -> None:
    for side in "xy":
        np.save(f"embeddings-of-side-{side}.npy", np.load(SAMPLE / f"{side}.npy")[:300])
    words = ("embeddings-of-side-x.npy", "embeddings-of-side-y.npy", "-k", 16, "--budget", "2s")
    shown = gcbs("tune", *words, "--max-suspected", 10**6).stdout.splitlines()[-1]
    assert len(shown) > 80
    assert gcbs(*shlex.split(shown)[1:], "-o", "p.npy").exit_code == 0
