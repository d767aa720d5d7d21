"""Look for the settings that close most of the gap under a cap of suspected false negatives, within a time budget."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.comparison.compare import NEEDS_TEXT, Compared, Comparison, default_methods
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.settings.model import words
from gcbs_cli.settings.plan import DEFAULT_MARGIN, PlanSettings
from gcbs_cli.system.progress import Progress

TOPS = (32, 8)
WEIGHTS = (0.3, 0.1, 3.0)
MARGINS = (0.9, 0.85)
LONGEST_LIST = 32
FIRST_TOP = 16


@dataclass(frozen=True)
class Trial:
    """Settings that were tried and what came of them."""

    settings: PlanSettings
    worth: Compared
    fits: bool
    """Whether the plan holds no more suspected pairs than allowed."""

    @property
    def suspected(self) -> int:
        """Suspected pairs that share a batch."""
        return int(self.worth.report.at("false_negatives.suspected_pairs") or 0)

    def reduction(self, target: str) -> float:
        """What is being maximised: the reduction of the masked gap (`masked`) or of the gap."""
        return float(self.worth.report.at("gap.masked.reduction" if target == "masked" else "gap.reduction") or 0.0)

    def options(self) -> str:
        """The options of `gcbs plan` that make this plan."""
        return " ".join(plan_options(self.settings))


@dataclass(frozen=True)
class Tuned:
    """All trials in the order in which they were made, the best that fits (None where none does), and the cap."""

    trials: list[Trial]
    best: Trial | None
    most_suspected: int
    timed_out: bool


def plan_options(settings: PlanSettings) -> list[str]:
    """The words after `gcbs plan X Y` that ask for these settings."""
    used = settings if settings.refine else settings.changed(time_limit=None)
    return words(used, always=("method", "batch_size", "temperature"))


def tune(
    pair: PairedRows,
    settings: PlanSettings,
    watcher: Progress,
    *,
    budget: float,
    target: str = "masked",
    most_suspected: int | None = None,
    trials: int = 3,
    groups: NDArray[np.int64] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> Tuned:
    """Try plans until the ideas or the `budget` (seconds, passes included) run out; the first is always made.

    `target`: masked or gap, the reduction to maximise; `most_suspected`: the cap, by default what plain RCM's plan
    holds; `groups`, `inputs`: as in `make_plan`; with texts among the latter, `words` is tried too. One setting
    is changed at a time and the best that fits is kept; until one does, the one that holds the fewest. Raises BadInput.
    """
    began = time.monotonic()
    comparison = Comparison(
        pair, settings, watcher, longest_list=LONGEST_LIST, trials=trials, groups=groups, inputs=inputs
    )

    def attempt(asked: PlanSettings) -> Trial:
        worth = comparison.compared(" ".join(plan_options(asked)), asked)
        tried = Trial(asked, replace(worth, method=asked.method), fits=True)
        return replace(tried, fits=most_suspected is None or tried.suspected <= most_suspected)

    ideas = [_strong_start, *([_by_words] if inputs else []), _weights, _graphs, _margins, _group_sizes]
    done = [attempt(settings)]
    if most_suspected is None:
        most_suspected = done[0].suspected
    best, timed_out, longest = (done[0] if done[0].fits else None), False, 0.0
    for idea in ideas:
        start_of_idea = best or min(done, key=lambda trial: trial.suspected)
        for asked in idea(start_of_idea.settings, settings):
            if any(asked == trial.settings for trial in done):
                continue
            if time.monotonic() - began + longest > budget:
                timed_out = True
                break
            start = time.monotonic()
            done.append(attempt(asked))
            longest = max(longest, time.monotonic() - start)
            if done[-1].fits and (best is None or done[-1].reduction(target) > best.reduction(target)):
                best = done[-1]
    return Tuned(done, best, most_suspected, timed_out)


def _strong_start(best: PlanSettings, first: PlanSettings) -> Iterator[PlanSettings]:
    """The refined plans that keep suspected pairs apart, on the graph of the hardest, from the best method there is."""
    for method in ("metis", "rcm"):
        if method in default_methods():
            yield best.changed(method=method, refine=True, graph="top-m", top=FIRST_TOP, fn_margin=DEFAULT_MARGIN)


def _by_words(best: PlanSettings, first: PlanSettings) -> Iterator[PlanSettings]:
    yield best.changed(method=NEEDS_TEXT)
    yield first.changed(method=NEEDS_TEXT)


def _weights(best: PlanSettings, first: PlanSettings) -> Iterator[PlanSettings]:
    if best.refine:
        for weight in WEIGHTS:
            yield best.changed(fn_weight=weight)
        yield best.changed(fn_margin=first.fn_margin, fn_weight=first.fn_weight)


def _graphs(best: PlanSettings, first: PlanSettings) -> Iterator[PlanSettings]:
    if best.refine:
        for top in TOPS:
            yield best.changed(graph="top-m", top=top)
        yield best.changed(graph=first.graph, top=first.top)


def _margins(best: PlanSettings, first: PlanSettings) -> Iterator[PlanSettings]:
    """Wider ones."""
    if best.fn_margin is not None:
        for margin in MARGINS:
            yield best.changed(fn_margin=margin)


def _group_sizes(best: PlanSettings, first: PlanSettings) -> Iterator[PlanSettings]:
    for parts in (2, 4):
        if best.batch_size % parts == 0 and best.batch_size // parts > 1:
            yield best.changed(group_size=best.batch_size // parts)
