"""Look for the settings that close most of the gap under a cap of suspected false negatives, within a time budget."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from gcbs_cli.comparison.compare import NEEDS_TEXT, Compared, Comparison, default_methods
from gcbs_cli.settings.plan import DEFAULT_MARGIN, PlanSettings

TOPS = (32, 8)
WEIGHTS = (0.3, 0.1, 3.0)
MARGINS = (0.9, 0.85)
LONGEST_LIST = 32
FIRST_TOP = 16
TRIALS = 3

Idea = Callable[[PlanSettings, PlanSettings], Iterator[PlanSettings]]
"""From the best settings so far and the first ones to some that may be better."""


@dataclass(frozen=True)
class Tuned:
    """All trials in the order in which they were made, and the cap."""

    trials: list[Compared]
    most_suspected: int
    target: str
    """The reduction that is maximised: of the masked gap (`masked`) or of the gap."""
    timed_out: bool = False

    def fits(self, trial: Compared) -> bool:
        """Whether the plan holds no more suspected pairs than allowed."""
        return trial.suspected <= self.most_suspected

    def reduction(self, trial: Compared) -> float:
        """What is being maximised."""
        path = "gap.masked.reduction" if self.target == "masked" else "gap.reduction"
        return float(trial.report.at(path) or 0.0)

    @property
    def best(self) -> Compared | None:
        """The best that fits, None where none does."""
        return max(filter(self.fits, self.trials), key=self.reduction, default=None)


def tune(
    comparison: Comparison, began: float, budget: float, target: str, most_suspected: int | None, *, texts: bool
) -> Tuned:
    """Try plans until the ideas or the `budget` (seconds since `began`) run out; the first is always made.

    target: masked or gap, the reduction to maximise; most_suspected: the cap, by default what plain RCM's plan holds;
    texts: try the method words too. One setting is changed at a time and the best that fits is kept; until one does,
    the one that holds the fewest. Raises BadInput.
    """
    first = comparison.settings
    trials, longest = [comparison.of(first)], 0.0
    tuned = Tuned(trials, trials[0].suspected if most_suspected is None else most_suspected, target)
    ideas: list[Idea] = [_strong_start, *([_by_words] if texts else []), _weights, _graphs, _margins, _group_sizes]
    for idea in ideas:
        best = tuned.best or min(trials, key=lambda trial: trial.suspected)
        for asked in idea(best.settings, first):
            if any(asked == trial.settings for trial in trials):
                continue
            start = time.monotonic()
            if start - began + longest > budget:
                return replace(tuned, timed_out=True)
            trials.append(comparison.of(asked))
            longest = max(longest, time.monotonic() - start)
    return tuned


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
