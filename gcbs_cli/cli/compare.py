"""`gcbs compare`: all methods on the same data in one table, by the gap or by training."""

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from gcbs_cli.cli.inputs import files_read, open_inputs, read_row_facts
from gcbs_cli.cli.output import Output, figure_table
from gcbs_cli.comparison.compare import (
    NEEDS_TEXT,
    PRESET_ROW,
    RANDOM,
    SHOWN,
    compare_plans,
    options_of,
    settings_around,
    settings_of,
)
from gcbs_cli.comparison.trial import Trial, TrialSettings, gain
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders import METHODS
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.products.devices import devices_named
from gcbs_cli.reports.figures import shown_in
from gcbs_cli.settings.model import words
from gcbs_cli.settings.others import Compare, GroupFile, Inputs, TextFile
from gcbs_cli.settings.plan import PRESET, PlanSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import TORCH_MAPS, check_address_space

if TYPE_CHECKING:
    from rich.table import Table

GAP_TEXTS = {
    "lead": "Only --train tells which plan trains best. Without a trial, take the preset:",
    "question": "How much of the loss's weight is on negatives to learn from?",
    "meaning": "Learnable share: the weight of negatives less similar than the positive. The thin line ends at random.",
    "limits": "On five corpora it ordered nine of ten pairs of plans as training did, the gap fewer than half: a "
    "smaller gap means harder batches, not a better model. gcbs compare --train finds out which plan a model learns "
    "most from.",
}
TRIAL_TEXTS = {
    "question": "What does a model gain?",
    "meaning": "MRR × 100 over random batches, on held-out queries. The thin line spans what may be chance.",
    "limits": "Small heads were trained on frozen embeddings. This tells whether planning pays for a model that starts "
    "near these embeddings. Encoders trained from scratch gained more, and by another plan.",
}
TRIAL_CAPTION = (
    "MRR gain: over random batches, × 100, mean ± standard deviation over seeds; noise: what a gain must exceed, by"
    " seeds and queries; seconds: for an epoch's plan. {queries:,} held-out queries, {candidates:,} candidates (random"
    " batches: MRR {random_mrr:.1f}); {train_rows:,} rows to train on, {epochs} epochs, {seeds} seeds; {seconds:.0f} s"
    " in all."
)


@dataclass(frozen=True)
class Outcome:
    """A comparison as it is shown.

    bars: of each plan, the length of its bar, the ends of the line on it, and the value in words; best: the name of the
    plan to take, None for random batches; record: for JSON; texts: those of the page, of which `lead` is the sentence.
    """

    table: "Table"
    bars: Mapping[str, tuple[float, tuple[float, float], str]]
    best: str | None
    record: Mapping[str, Any]
    texts: Mapping[str, str]


def compare(settings: Compare) -> None:
    """Plan with each method, and print what each plan is worth, and the command of the best."""
    out = Output(settings, settings.html)
    check_outputs([settings.html], files_read(settings), force=settings.force)
    plans = _plans(settings, out)
    stream = open_inputs(settings, out)
    settings.check_rows(stream.rows)
    row_facts = read_row_facts(settings, stream.rows)
    judge = by_training if settings.train else by_figures
    with out:
        outcome = judge(settings, plans, stream.read(), row_facts, out)
    command = None
    if outcome.best is not None:
        preset = settings_of(PRESET_ROW, settings.only(PlanSettings))
        command = plan_command(settings, plans.get(outcome.best, preset))
    if settings.html is not None:
        write(settings.html, _page(settings, outcome, command), force=settings.force)
    out.table(outcome.table, "", outcome.texts["lead"])
    if command is not None:
        out.line(command)
    out.result({**settings.model_dump(include={"batch_size", "temperature"}), **outcome.record, "command": command})


def _plans(settings: Compare, out: Output) -> dict[str, PlanSettings]:
    """The plans by their names in the table; a method that is not installed is left out, or refused if it was named."""
    shared = settings.only(PlanSettings)
    names = [PRESET_ROW if name == PRESET else name for name in settings.names]
    if settings.train:
        names.insert(0, RANDOM)
    plans = {name: settings_of(name, shared) for name in names}
    for name, plan in list(plans.items()):
        if plan.method == NEEDS_TEXT and settings.text is None:
            raise BadInput("--methods words: needs the rows' texts; give them with --text FILE")
        try:
            METHODS[plan.method].check()
        except BadInput as error:
            if settings.methods is not None:
                raise
            out.note(f"{name} left out: {error}")
            del plans[name]
    if settings.around:
        plans |= settings_around(settings_of(PRESET_ROW, shared))
    return plans


def by_figures(
    settings: Compare, plans: Mapping[str, PlanSettings], pairs: PairedRows, row_facts: Mapping[str, Any], out: Output
) -> Outcome:
    """What the plans are worth by the figures of a report, which do not train: the preset is the one to take."""
    lines = compare_plans(pairs, plans, settings.only(PlanSettings), out, trials=settings.trials, **row_facts)
    lines.sort(key=lambda line: line.learnable, reverse=True)
    bars = {}
    for line in lines:
        random = line.report.learnable_share.random_mean or 0.0
        bars[line.name] = (line.learnable, (line.learnable, random), f"{line.learnable:.1%}")
    reports = [((line.name, f"{line.seconds:.1f}"), line.report) for line in lines]
    table = figure_table(reports, ["method", "seconds"], SHOWN)
    table.caption = "; ".join(f"{figure.short}: {figure.meaning}" for figure in SHOWN)
    return Outcome(table, bars, PRESET_ROW, {"methods": [line.as_record() for line in lines]}, GAP_TEXTS)


def by_training(
    settings: Compare, plans: Mapping[str, PlanSettings], pairs: PairedRows, row_facts: Mapping[str, Any], out: Output
) -> Outcome:
    """What a model gains by each plan, and the verdict."""
    began = time.monotonic()
    check_address_space(TORCH_MAPS)
    device = devices_named(settings.device)[0]
    trial_settings = TrialSettings(settings.batch_size, settings.temperature, budget=settings.budget, device=device)
    trial = Trial(pairs, trial_settings, progress=out, **row_facts)
    rows = np.sort(trial.split.train)
    trained = PairedRows(pairs.x[rows], pairs.y[rows])
    shared = settings.only(PlanSettings)
    lines = compare_plans(trained, plans, shared, out, trials=settings.trials, **trial.row_facts(rows))
    runs, verdict = trial.decide(plans, PRESET_ROW)
    gains = {name: gain(runs, name) for name in plans}
    lines.sort(key=lambda line: gains[line.name].mean, reverse=True)
    bars = {}
    reports = []
    for line in lines:
        one = gains[line.name]
        bars[line.name] = (one.mean, (one.mean - one.noise, one.mean + one.noise), str(one))
        seconds = fmean(run.plan_seconds for run in one.runs)
        reports.append(((line.name, str(one), f"{one.noise:.1f}", f"{seconds:.1f}"), line.report))
    sizes = {
        "train_rows": len(trial.split.train),
        "queries": len(trial.split.test),
        "candidates": len(trial.split.candidates),
        "epochs": trial.epochs,
        "seeds": len(gains[RANDOM].runs),
        "random_mrr": fmean(run.mrr for run in gains[RANDOM].runs),
        "seconds": time.monotonic() - began,
    }
    record = {
        "verdict": verdict.sentence,
        "plan": verdict.plan,
        "trial": sizes,
        "methods": [line.as_record() | gains[line.name].as_record() for line in lines],
    }
    table = figure_table(reports, ["plan", "MRR gain", "noise", "seconds"], shown_in("trial"))
    table.caption = TRIAL_CAPTION.format(**sizes)
    return Outcome(table, bars, verdict.plan, record, {"lead": verdict.sentence, **TRIAL_TEXTS})


def _page(settings: Compare, outcome: Outcome, command: str | None) -> str:
    """The comparison as one page of HTML."""
    from gcbs_cli.reports.page.page import Axis, Mark, render

    best, table = outcome.best, outcome.table
    kinds = {RANDOM: "random", best: "plan"}
    names = " · ".join(filter(None, (settings.x, settings.y)))
    ends = [0.0, *(end for _, ends, _ in outcome.bars.values() for end in ends)]
    return render(
        "compare.html",
        title=f"gcbs compare: {names}, batches of {settings.batch_size}, temperature {settings.temperature:g}",
        headline="Stay with random batches." if best is None else f"Take {best}.",
        bars=[Mark(name, kinds.get(name, "none"), *bar) for name, bar in outcome.bars.items()],
        axis=Axis(min(ends), max(ends)),
        header=[column.header for column in table.columns],
        rows=list(zip(*(column.cells for column in table.columns), strict=True)),
        caption=table.caption,
        taken=best,
        command=command,
        **outcome.texts,
    )


def plan_command(settings: Compare, plan: PlanSettings) -> str:
    """The command line that makes a plan of the same data."""
    files = words(settings.only(GroupFile))
    if plan.method == NEEDS_TEXT:
        files += words(settings.only(TextFile))
    inputs = words(settings.only(Inputs))
    return shlex.join(["gcbs", "plan", *inputs, *options_of(plan), *files, "-o", "perm.npy"])
