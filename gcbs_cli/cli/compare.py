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

from gcbs_cli.cli.inputs import open_inputs, read_ids, read_texts
from gcbs_cli.cli.output import Output, show_progress
from gcbs_cli.cli.tables import compare_table, trial_table
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
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.products.devices import devices_named
from gcbs_cli.settings.model import words
from gcbs_cli.settings.others import PRESET, Compare, GroupFile, Inputs, TextFile, Tune
from gcbs_cli.settings.plan import PlanSettings

if TYPE_CHECKING:
    from rich.table import Table

    from gcbs_cli.comparison.trial import Gain, TrialRun

SAID = {"batch_size", "temperature"}
GAP_ALONE = "The gap does not tell which plan trains best; --train does. Without it:"
LIMITS_OF_GAP = (
    "A smaller gap means harder batches, not a better model. The plan that closes most often does so with right "
    "answers that count as wrong ones in their batch: the suspects. The preset keeps them apart, and trained best on "
    "five corpora. gcbs compare --train tries on this data which plan a model learns most from."
)
LIMITS_OF_TRIAL = (
    "Small heads were trained on embeddings that stay as they are. This tells whether planning pays for a model that "
    "starts near these embeddings. Encoders trained from scratch gained more, and their best plan was another one."
)


def compare(settings: Compare) -> None:
    """Plan with each method, and print what each plan is worth."""
    out, texts = Output(settings, settings.html), settings.text is not None
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
    table = compare_table(lines)
    command = command_of(settings, settings_of(PRESET_ROW, shared))
    values = {line.name: (line.report.at(MASKED) or 0.0, line.report.gap.reduction or 0.0) for line in lines}
    write_page(
        settings,
        table,
        PRESET_ROW,
        {name: (masked, (masked, plain), f"{masked:.1%}") for name, (masked, plain) in values.items()},
        headline=f"Take {PRESET_ROW}, unless training on this data says otherwise.",
        lead="The gap is the part of the loss over all pairs that training on batches does not see.",
        command=command,
        question="How much smaller is the gap?",
        meaning="Masked gap reduction: suspected false negatives do not count. The line reaches to where they do.",
        limits=LIMITS_OF_GAP,
    )
    out.table(table)
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
    table = trial_table(lines, gains, by_plan, sizes)
    command = None if verdict.plan is None else command_of(settings, plans[verdict.plan])
    write_page(
        settings,
        table,
        verdict.plan,
        {name: (one.mean, (one.mean - one.noise, one.mean + one.noise), str(one)) for name, one in gains.items()},
        headline="Stay with random batches." if verdict.plan is None else f"Take {verdict.plan}.",
        lead=verdict.sentence,
        command=command,
        question="What does a model gain?",
        meaning="MRR × 100 over random batches, on held-out queries. What the line spans may be chance.",
        limits=LIMITS_OF_TRIAL,
    )
    out.table(table)
    out.table(f"\n{verdict.sentence}")
    if command is not None:
        out.line(command)
    records = [{**line.as_record(), **_trained(gains[line.name], by_plan[line.name])} for line in lines]
    said = {"verdict": verdict.sentence, "plan": verdict.plan, "final": verdict.final, "command": command}
    out.result({**settings.model_dump(include=SAID), **said, "trial": sizes, "methods": records})


def write_page(
    settings: Compare | Tune,
    table: "Table",
    taken: str | None,
    values: Mapping[str, tuple[float, tuple[float, float], str]],
    **said: str | None,
) -> None:
    """Write the table as a page, if that was asked for, with a bar for each of its lines.

    taken: the plan to take; values: of each plan, what its bar shows, the ends of the line on it, and both in words.
    """
    if settings.html is None:
        return
    from gcbs_cli.reports.page.charts import Axis, Bar
    from gcbs_cli.reports.page.page import render

    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    kinds = {RANDOM: "random", taken: "plan"}
    bars = [Bar(name, kinds.get(name, "none"), *values[name]) for name, *_ in rows]
    known = [0.0, *(value for bar in bars for value in (bar.value, *bar.ends))]
    names = " · ".join(filter(None, (settings.x, settings.y)))
    page = render(
        "compare.html",
        title=f"gcbs compare: {names}, batches of {settings.batch_size}, temperature {settings.temperature:g}",
        bars=bars,
        axis=Axis("", min(known), max(known)),
        header=[column.header for column in table.columns],
        rows=rows,
        caption=table.caption,
        taken=taken,
        **said,
    )
    write(settings.html, page)


@contextmanager
def read_data(settings: Compare | Tune, out: Output) -> Iterator[tuple[PairedRows, dict[str, Any]]]:
    """The rows, and what else plans are given: groups and texts. Raises BadInput where settings do not fit them, and at
    the end where the files are no longer what they were.
    """
    check_outputs([settings.html], [settings.x, settings.y, settings.groups, settings.text], force=settings.force)
    stream = open_inputs(settings, out)
    settings.check_rows(stream.rows)
    given = {"groups": read_ids(settings, "groups", stream.rows), "inputs": read_texts(settings, stream.rows)}
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
