"""`gcbs compare`: all methods on the same data in one table, by the gap or by training."""

import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from gcbs_cli.cli.inputs import open_inputs, read_groups, read_texts
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import compare_table, trial_table
from gcbs_cli.cli.watching import show_progress
from gcbs_cli.comparison.compare import (
    MASKED,
    NEEDS_TEXT,
    PRESET_ROW,
    RANDOM,
    compare_plans,
    default_methods,
    not_installed,
    options_of,
    plain_names,
    settings_of,
)
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.devices import devices_named
from gcbs_cli.settings.model import words
from gcbs_cli.settings.others import PRESET, Compare, GroupFile, Inputs, TextFile, Tune
from gcbs_cli.settings.plan import PlanSettings

if TYPE_CHECKING:
    from gcbs_cli.comparison.trial import Gain, TrialRun

SAID = {"batch_size", "temperature"}
GAP_ALONE = "The gap does not tell which plan trains best; --train does. Unless it says otherwise:"


def compare(settings: Compare) -> None:
    """Plan with each method, and print what each plan is worth."""
    out, texts = Output(settings), settings.text is not None
    names = [PRESET_ROW if name == PRESET else name for name in settings.names]
    if settings.train:
        names = [*dict.fromkeys([RANDOM, *names, *[NEEDS_TEXT] * (texts and settings.methods is None)])]
    elif settings.methods is None:
        names = default_methods(texts=texts)
        for missing in not_installed().values():
            out.note(f"left out: {missing}")
    methods = plain_names(names)
    settings.check_text(methods)
    shared = settings.only(PlanSettings)
    plans = {name: settings_of(name, shared) for name in names}
    if settings.train:
        compare_by_training(settings, plans, out, settings.budget, settings.trials)
        return
    with show_progress(out) as progress, read_data(settings, out) as (rows, given):
        lines = compare_plans(rows, plans, shared, progress, trials=settings.trials, **given)
    lines.sort(key=lambda line: line.report.at(MASKED) or 0.0, reverse=True)
    out.table(compare_table(lines))
    command = command_of(settings, settings_of(PRESET_ROW, shared))
    out.line(f"\n{GAP_ALONE}\n{command}")
    out.result(
        {**settings.model_dump(include=SAID), "methods": [line.as_record() for line in lines], "command": command}
    )


def compare_by_training(
    settings: Compare | Tune, plans: Mapping[str, PlanSettings], out: Output, budget: float, trials: int
) -> None:
    """Print what a model gains by each plan, the verdict and the command of the best plan."""
    from gcbs_cli.comparison.trial import Trial, TrialSettings, gain

    began = time.monotonic()
    with show_progress(out) as progress, read_data(settings, out) as (rows, given):
        device = devices_named(settings.device)[0]
        asked = TrialSettings(settings.batch_size, settings.temperature, budget=budget, device=device)
        trial = Trial(rows, asked, progress=progress, **given)
        trained = np.sort(trial.split.train)
        part = PairedRows(rows.x[trained], rows.y[trained])
        shared = settings.only(PlanSettings)
        lines = compare_plans(part, plans, shared, progress, trials=trials, **trial.given(trained))
        runs, verdict = trial.decide(plans, PRESET_ROW)
    gains = {name: gain(runs, name) for name in plans}
    lines.sort(key=lambda line: gains[line.name].mean, reverse=True)
    by_plan = {name: [run for run in runs if run.plan == name] for name in plans}
    sizes = {
        "train_rows": len(trial.split.train),
        "queries": len(trial.split.test),
        "candidates": len(trial.split.candidates),
        "epochs": trial.epochs,
        "seeds": len(by_plan[RANDOM]),
        "random_mrr": fmean(run.mrr for run in by_plan[RANDOM]),
        "seconds": time.monotonic() - began,
    }
    out.table(trial_table(lines, gains, by_plan, sizes))
    out.line(f"\n{verdict.sentence}")
    command = None if verdict.plan is None else command_of(settings, plans[verdict.plan])
    if command is not None:
        out.line(command)
    records = [{**line.as_record(), **_trained(gains[line.name], by_plan[line.name])} for line in lines]
    said = {"verdict": verdict.sentence, "plan": verdict.plan, "final": verdict.final, "command": command}
    out.result({**settings.model_dump(include=SAID), **said, "trial": sizes, "methods": records})


@contextmanager
def read_data(settings: Compare | Tune, out: Output) -> Iterator[tuple[PairedRows, dict[str, Any]]]:
    """The rows, and what else plans are given: groups and texts. Raises BadInput where settings do not fit them, and at
    the end where the files are no longer what they were.
    """
    stream = open_inputs(settings, out)
    settings.check_rows(stream.rows)
    given = {"groups": read_groups(settings, stream.rows), "inputs": read_texts(settings, stream.rows)}
    yield stream.read(), given
    stream.check_unchanged()


def command_of(settings: Compare | Tune, plan: PlanSettings) -> str:
    """The command line that makes a plan of the data, into a file that does not exist yet."""
    files = [*words(settings.only(GroupFile)), *(words(settings.only(TextFile)) if plan.method == NEEDS_TEXT else [])]
    paths = ("perm.npy" if number == 1 else f"perm-{number}.npy" for number in count(1))
    output = next(path for path in paths if not Path(path).exists())
    return shlex.join(["gcbs", "plan", *words(settings.only(Inputs)), *options_of(plan), *files, "-o", output])


def _trained(found: "Gain", runs: "list[TrialRun]") -> dict[str, Any]:
    """What a plan came to, and each run."""
    known = ("seed", "mrr", "recall", "validation", "plan_seconds", "train_seconds")
    each = [{name: getattr(run, name) for name in known} for run in runs]
    return {"gain": found.mean, "gain_std": found.std, "noise": found.noise, "runs": each}
