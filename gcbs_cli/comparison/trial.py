"""Judge plans by training on the data itself: small heads on the frozen embeddings, and held-out right answers to find.

Two residual heads start as the identity and are trained by each plan with the same draws, with a new plan each epoch
from what the heads make of the rows by then, and batches in random order. Validation queries choose the epoch, test
queries say what it is worth. What counts is a plan's mean reciprocal rank (MRR) over that of random batches, seed by
seed.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gcbs_cli.comparison.compare import RANDOM
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import DEFAULT_BATCH_SIZE, DEFAULT_TEMPERATURE, PlanSettings
from gcbs_cli.system.arrays import Bools, Float32s, Floats, Ints, equal_rows, joined
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.system.progress import Progress
from gcbs_cli.system.threads import in_order

if TYPE_CHECKING:
    from gcbs_cli.comparison.heads import Heads

Result = TypeVar("Result")
TEST_SHARE = 0.2
MOST_TEST = 3000
VALIDATION_SHARE = 0.1
MOST_VALIDATION = 1500
MOST_CANDIDATES = 10_000
MOST_TRAINED = 12_000
"""Rows: more would take longer and tell no more."""
LEAST_TRAINED = 2_000
LEAST_BATCHES = 32
"""Fewer rows or batches than these would tell too little."""
MOST_KEPT_TOGETHER = 32
"""Rows with right answers in common are all trained on or all held out, unless there are more of them than this."""
EPOCHS = 5
MOST_EPOCHS = 15
STEPS = 900
"""Few rows get more epochs, until they make this number of steps."""
LEARNING_RATE = 3e-4
RATE_BATCH_SIZE = 64
"""The batch size for which the learning rate is; it grows with the square root of the batch size."""
MOST_SEEDS = 10
FITTING_SEEDS = 3
"""So many rows are trained that this number of seeds fits in the budget."""
LEAST_SEEDS = 2
"""This number of seeds is run however long they take."""
SPLIT_SEED = 0x5B117
CERTAIN = 2.0
"""A difference counts beyond this number of standard errors."""

OrderFunction = Callable[[Float32s, Float32s, int], Any]
"""From unit rows of both sides (n, d) and a seed to a permutation (n,)."""
Plans = Mapping[str, PlanSettings | OrderFunction]


@dataclass(frozen=True)
class TrialSettings:
    """How the heads are trained; None lets the number of rows decide. budget: seconds in all. device: torch's."""

    batch_size: int = DEFAULT_BATCH_SIZE
    temperature: float = DEFAULT_TEMPERATURE
    epochs: int | None = None
    seeds: Sequence[int] = tuple(range(MOST_SEEDS))
    budget: float = math.inf
    device: str = "cpu"


@dataclass(frozen=True)
class TrialRun:
    """The result of one plan and seed.

    validation: MRR × 100 of the validation queries, before training and after each epoch. reciprocal_ranks: (q,) of the
    test queries' right answers among all candidates, at the best epoch. Seconds are those of an epoch, on average.
    """

    plan: str
    seed: int
    validation: list[float]
    reciprocal_ranks: Floats
    plan_seconds: float
    train_seconds: float

    @property
    def mrr(self) -> float:
        """Mean reciprocal rank of the test queries × 100."""
        return 100.0 * float(np.mean(self.reciprocal_ranks))


@dataclass(frozen=True)
class Split:
    """Row numbers: those to train on, in random order, so that the first of them will do as well, and of those held out
    the queries and all whose y is a candidate.
    """

    train: Ints
    validation: Ints
    test: Ints
    candidates: Ints


class Trial:
    """Trains heads by plans; the same rows, queries and draws for each."""

    def __init__(
        self,
        pairs: PairedRows,
        settings: TrialSettings,
        *,
        groups: Ints | None = None,
        texts: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        """groups: (N,) rows with the same id have the same right answers, and plans keep them apart; texts: of
        the rows, for the method words. Rows with an equal x, too, have each other's answers as right ones,
        and equal answers are one candidate. Raises BadInput for too few rows, and where torch is missing.
        """
        self._pairs = pairs
        self.settings = settings
        self._groups = groups
        self._texts = texts
        self._progress = progress or Progress()
        self._start = time.monotonic()
        self._ids = [equal_rows(pairs.x)[1]]
        if groups is not None:
            self._ids.append(groups)
        self._answers = equal_rows(pairs.y)[1]
        self.split = split_rows([*self._ids, self._answers], MOST_TRAINED)
        if len(self.split.train) < 2 * settings.batch_size:
            raise BadInput(
                f"--train: {pairs.rows:,} rows leave {len(self.split.train):,} to train on, expected at least two"
                f" batches of {settings.batch_size}; give more rows or a smaller --batch-size"
            )
        self._validation = self._retrieval(self.split.validation)
        self._test = self._retrieval(self.split.test)
        self._heads()  # where torch is missing, it is said before any work
        steps = len(self.split.train) // settings.batch_size
        self.epochs = settings.epochs or min(max(EPOCHS, STEPS // steps), MOST_EPOCHS)

    def row_facts(self, rows: Ints) -> dict[str, Any]:
        """Groups and texts of these rows, as `make_plan` takes them."""
        return {
            "groups": None if self._groups is None else self._groups[rows],
            "texts": None if self._texts is None else [self._texts[row] for row in rows],
        }

    def decide(self, plans: Plans, preferred: str | None) -> tuple[list[TrialRun], "Verdict"]:
        """For each seed a run of each plan, until time is up."""
        self._fit(plans)
        runs: list[TrialRun] = []
        for number, seed in enumerate(self.settings.seeds, 1):
            self._progress.step(f"training, seed {seed}")
            runs += self._at_once([partial(self.run_one, name, plan, seed) for name, plan in plans.items()])
            seconds_with_next = (time.monotonic() - self._start) * (number + 1) / number
            if number >= LEAST_SEEDS and seconds_with_next > self.settings.budget:
                break
        return runs, judge(runs, preferred)

    def run_one(self, name: str, plan: PlanSettings | OrderFunction, seed: int) -> TrialRun:
        """Train by one plan."""
        heads = self._heads()
        rows = np.sort(self.split.train)
        make_order = order_function(plan, **self.row_facts(rows))
        validation = [self._validate(heads)]
        best = deepcopy(heads.changes.state_dict())
        seconds = []
        for epoch in range(self.epochs):
            *spent, mrr = self._epoch(heads, rows, make_order, seed * MOST_EPOCHS + epoch)
            seconds.append(spent)
            validation.append(mrr)
            if mrr == max(validation):
                best = deepcopy(heads.changes.state_dict())
        heads.changes.load_state_dict(best)
        planning, training = map(float, np.mean(seconds, axis=0))
        return TrialRun(name, seed, validation, 1.0 / heads.ranks(*self._test), planning, training)

    def _at_once(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """The results of the calls, in their order; each has a processor for itself."""
        from gcbs_cli.comparison.heads import one_thread

        workers = available_cpus() if self.settings.device == "cpu" else 1
        with one_thread():
            return list(in_order(workers, calls, lambda call: call()))

    def _fit(self, plans: Plans) -> None:
        """Take as many rows as the time allows, by the seconds of one epoch of each plan; of few rows, fewer epochs."""
        settings = self.settings
        if settings.budget == math.inf:
            return
        self._progress.step("measuring an epoch")
        for batches in (LEAST_BATCHES, 2 * LEAST_BATCHES):  # once for what compiles or loads only the first time
            train = np.sort(self.split.train[: batches * settings.batch_size])
            start = time.monotonic()
            functions = [order_function(plan, **self.row_facts(train)) for plan in plans.values()]
            self._at_once([partial(self._epoch, self._heads(), train, make_order, 0) for make_order in functions])
            seconds = (time.monotonic() - start) / len(train)
        left = settings.budget + self._start - time.monotonic()
        least = max(LEAST_BATCHES * settings.batch_size, LEAST_TRAINED)
        for epochs in (self.epochs, min(EPOCHS, self.epochs)):
            fitting = int(left / (FITTING_SEEDS * epochs * seconds))
            if fitting >= least:
                break
        self.epochs = epochs
        self.split = replace(self.split, train=self.split.train[: max(fitting, least)])
        needed = LEAST_SEEDS * epochs * seconds * len(self.split.train)
        if needed > left:
            self._progress.note(
                f"the budget of {settings.budget:g} s is too short for {LEAST_SEEDS} seeds, the least that is trained;"
                f" that takes about {settings.budget + needed - left:.0f} s"
            )

    def _heads(self) -> "Heads":
        try:
            from gcbs_cli.comparison.heads import Heads
        except ImportError as error:
            raise BadInput("--train: torch is not installed; run: pip install torch") from error
        scale = (self.settings.batch_size / RATE_BATCH_SIZE) ** 0.5
        return Heads(self._pairs, self.settings.device, LEARNING_RATE * scale)

    def _epoch(self, heads: "Heads", rows: Ints, make_order: OrderFunction, seed: int) -> tuple[float, float, float]:
        """Seconds of planning and of training, and what the validation queries say then."""
        start = time.perf_counter()
        size = self.settings.batch_size
        order = rows[make_order(*heads.embed(rows), seed)]
        planned = time.perf_counter()
        for place in np.random.default_rng(seed).permutation(np.arange(0, len(order), size)):
            batch = order[place : place + size]
            heads.train(batch, batch, self.settings.temperature)
        trained = time.perf_counter()
        return planned - start, trained - planned, self._validate(heads)

    def _validate(self, heads: "Heads") -> float:
        """MRR × 100 of the validation queries."""
        return 100.0 * float(np.mean(1.0 / heads.ranks(*self._validation)))

    def _retrieval(self, queries: Ints) -> tuple[Ints, Ints, Bools]:
        """The queries (q,), the candidates (c,), each with another y, and (q, c) which are right: of rows with the same
        x or group.
        """
        pool = self.split.candidates
        _, first, column = np.unique(self._answers[pool], return_index=True, return_inverse=True)
        right = np.zeros((len(queries), len(first)), np.bool_)
        for ids in self._ids:
            places, answers = np.nonzero(ids[queries, None] == ids[pool])
            right[places, column[answers]] = True
        return queries, pool[first], right


def order_function(plan: PlanSettings | OrderFunction, **row_facts: Any) -> OrderFunction:
    """A function that makes the orders of `gcbs plan` with these settings; row_facts: groups, texts."""
    if not isinstance(plan, PlanSettings):
        return plan
    return lambda x, y, seed: make_plan(PairedRows(x, y), plan.changed(seed=seed), **row_facts).perm


def split_rows(ids: Sequence[Ints], most_trained: int) -> Split:
    """A split of the rows, one for all seeds. ids: (N,) each; rows that share one stay together where they are few."""
    lines = np.stack(ids)
    unit = joined(lines + (1 + lines.max()) * np.arange(len(ids))[:, None])
    unit = np.where(np.bincount(unit)[unit] > MOST_KEPT_TOGETHER, unit.max() + 1 + np.arange(len(unit)), unit)
    order = np.argsort(np.random.default_rng(SPLIT_SEED).random(int(unit.max()) + 1)[unit], kind="stable")
    begins_unit = np.diff(unit[order], prepend=-1) != 0
    count = len(order)
    test_rows = min(MOST_TEST, int(TEST_SHARE * count))
    queries = test_rows + min(MOST_VALIDATION, int(VALIDATION_SHARE * count))
    candidates = min(max(queries, count - most_trained), MOST_CANDIDATES)
    # Each part ends where a unit does.
    ends = [end + int(np.argmax(begins_unit[end:])) for end in (test_rows, queries, candidates)]
    test, validation, _, train = np.split(order, ends)
    return Split(train[:most_trained], np.sort(validation), np.sort(test), np.sort(order[: ends[2]]))


@dataclass(frozen=True)
class Gain:
    """How much higher a plan's MRR × 100 is than another's: mean and standard deviation (0 of one) over seeds.

    queries: standard error of the mean, by the choice of the queries. runs: of the plan.
    """

    mean: float
    std: float
    queries: float
    runs: Sequence[TrialRun]

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        figures = ("seed", "mrr", "validation", "plan_seconds", "train_seconds")
        runs = [{figure: getattr(run, figure) for figure in figures} for run in self.runs]
        return {"gain": self.mean, "gain_std": self.std, "noise": self.noise, "runs": runs}

    @property
    def noise(self) -> float:
        """What a difference must exceed to count."""
        return CERTAIN * float(np.hypot(self.queries, self.std / len(self.runs) ** 0.5))

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.std:.1f}"


def gain(runs: Sequence[TrialRun], plan: str, over: str = RANDOM) -> Gain:
    """By the runs of both plans, which have the same seeds."""
    ours, theirs = ([run for run in runs if run.plan == name] for name in (plan, over))
    gains = [our.reciprocal_ranks - their.reciprocal_ranks for our, their in zip(ours, theirs, strict=True)]
    by_seed, by_query = (100.0 * np.mean(gains, axis=axis) for axis in (1, 0))
    spread = by_seed.std(ddof=min(1, len(ours) - 1))
    return Gain(float(by_seed.mean()), float(spread), float(by_query.std() / len(by_query) ** 0.5), ours)


@dataclass(frozen=True)
class Verdict:
    """The plan to take, by its name, or None for random batches, and a sentence."""

    plan: str | None
    sentence: str


def judge(runs: Sequence[TrialRun], preferred: str | None = None) -> Verdict:
    """Which plan to take: that with the best validation MRR, or the preferred one unless that is beaten beyond noise.

    `runs` hold random batches and another plan at least, each with the same seeds.
    """
    names = list(dict.fromkeys(run.plan for run in runs if run.plan != RANDOM))
    best = max(names, key=lambda name: np.mean([max(run.validation) for run in runs if run.plan == name]))
    if preferred in names:
        over_preferred = gain(runs, best, preferred)
        if over_preferred.mean <= over_preferred.noise:
            best = preferred
    over_random = gain(runs, best)
    figure = f"{best}: {over_random} MRR over random"
    if over_random.mean > over_random.noise:
        return Verdict(best, f"{figure}: planning pays")
    chance = f"{figure}, less than {over_random.noise:.1f} may be chance"
    return Verdict(None, f"no difference beyond noise ({chance}): stay with random batches")
