"""Gap reports by every loss: what each makes of the sums over all keys and over a batch's keys, order by order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any

import numpy as np

from gcbs_cli.data.pairs import PairedRows, Positives, pair_values
from gcbs_cli.products.operations import FLOAT32_UNIT_ROUNDOFF
from gcbs_cli.products.sums import KeySums
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.reports.basis import Figures, ReportInputs, RowFacts
from gcbs_cli.reports.figures import FIGURES, nest
from gcbs_cli.reports.in_batch import TIE, BatchSums, Seen, batch_sums, log_sum_exp, of_orders, random_orders
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import Loss, ReportSettings
from gcbs_cli.system.arrays import Floats, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress

MOST_PAIRS = 1 << 28
"""Pairs of positives that are held at once, 24 bytes each."""
OF_ROWS = ("gap.oracle", "similarity.positive", *(one.path for one in FIGURES if one.path.endswith(".global")))
"""Figures that depend on an order only by the rows that it counts."""


@dataclass(frozen=True)
class Measured:
    """A report and what it was taken from.

    suspicion: the rule that the report counts by; perm: (N,) the plan; of_plan: its figures, with `batch_losses` (B,)
    of its batches, 0 for one in which no row counts, and `batch_hard`, which of them hold a row that is in a hard pair;
    of_random: the figures of the random orders.
    """

    report: GapReport
    inputs: ReportInputs
    suspicion: Suspicion
    perm: Ints | None
    of_plan: Figures
    of_random: list[Figures]


class OrderReports:
    """Reports on one order after the other by one loss and batch size; the same random orders serve them all.

    The loss over all keys and over those of a batch is here −s_ii / τ + log Σ exp(s_ij / τ), in S directions. Losses
    that are more than a mean of log sums against one positive override what differs.

    all: what each row sees among all keys; whole: of each temperature, the (2, S, N) losses over them; keys: how many
    these are; suspicion: the rule for suspected pairs.
    """

    in_nats = True
    """Whether it is a cross-entropy against one positive, so that log k − L_train bounds mutual information."""
    comparable = True
    """Whether the oracle bounds what a plan can close."""
    bounded = True
    """Whether the translation and the log-sum-exp bound hold."""

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        self.inputs, self.loss, self.size = inputs, loss, batch_size
        self.suspicion = inputs.suspicions[loss.kind == "bsc"]
        self.keys = loss.keys_in_all(inputs.pairs.rows)
        self.in_nats = self.in_nats and loss.top is None
        sums = inputs.sums[loss.kind == "bsc"]
        # Keys of the other side, and, of views, of the own side too.
        sides = [[sums[side, other] for other in (1 - side, side)[: 1 + loss.views]] for side in loss.sides]
        of_negatives = np.stack([np.logaddexp.reduce([part.log_sums for part in parts]) for parts in sides], axis=2)
        temperatures = inputs.settings.temperatures
        self._positives = inputs.diagonal / np.reshape(temperatures, (-1, 1, 1))
        hardest = [
            [np.max([part.hardest[:, 0] for part in parts], axis=0) for parts in sides],
            [parts[0].hardest_unsuspected for parts in sides],
        ]
        everywhere = np.zeros(inputs.pairs.rows, np.int64)
        self.all = Seen(np.logaddexp(of_negatives, self._positives), np.array(hardest), everywhere)
        self.whole = [self.losses(self.all, number) for number in range(len(temperatures))]
        self._oracle = self.oracle(sides)

    @cached_property
    def _random(self) -> list[list[Figures]]:
        """What the random orders give, each at each temperature."""
        inputs, settings = self.inputs, self.inputs.settings
        with inputs.clock.step("random batches"):
            return of_orders(random_orders(inputs.pairs.rows, settings.seed, settings.trials), self._values)

    def of(self, perm: Ints | None) -> list[Measured]:
        """For each temperature."""
        inputs, trials = self.inputs, self._random
        temperatures = inputs.settings.temperatures
        with inputs.clock.step("planned batches"):
            planned: list[Figures] = [{}] * len(temperatures) if perm is None else of_orders([perm], self._values)[0]
        measured = []
        for temperature, plan, *random in zip(temperatures, planned, *trials, strict=True):
            figures = inputs.figures | self._compared(plan, random, temperature)
            report = GapReport(
                n=inputs.pairs.rows,
                dim=inputs.pairs.dim,
                batch_size=self.size,
                temperature=temperature,
                loss_kind=self.loss.name,
                timings=dict(inputs.clock.seconds),
                **nest(figures),
            )
            measured.append(Measured(report, inputs, self.suspicion, perm, plan, random))
        return measured

    def _compared(self, plan: Figures, random: list[Figures], temperature: float) -> Figures:
        """The figures of the plan and of random orders, and what the first are beside the second."""

        def mean(path: str) -> float | None:
            values: list[Any] = [order.get(path) for order in random]
            return None if None in values else float(np.mean(values))

        figures: Figures = {path: mean(path) for path in OF_ROWS}
        for figure in FIGURES:
            if figure.random is None:
                continue
            figures[figure.random] = mean(figure.path)
            if figure.random.endswith("_mean") and len(random) > 1 and figure.path in random[0]:
                spread = np.std([order[figure.path] for order in random], ddof=1)
                figures[figure.random.replace("_mean", "_std")] = float(spread)
        if not plan:
            return figures
        figures |= plan
        whole, masked = figures["gap.random_mean"], figures["gap.masked.random_mean"]
        closed = whole - plan["gap.plan"]
        figures["gap.reduction"] = share(closed, whole, temperature)
        figures["gap.masked.reduction"] = share(masked - plan["gap.masked.plan"], masked, temperature)
        if self.comparable:
            figures["gap.closed_share"] = share(closed, whole - plan["gap.oracle"], temperature)
        return figures

    def _values(self, perm: Ints) -> list[Figures]:
        """The figures of an order at each temperature, by the paths of a plan's figures; and what `Measured` has."""
        inputs, settings = self.inputs, self.inputs.settings
        counted = perm[: len(perm) - len(perm) % self.size] if settings.drop_last else perm
        sums = batch_sums(inputs.pairs, perm, self.size, settings.temperatures, self.loss, self.suspicion)
        # A batch's sums lie between the positive alone and all keys, and are these where the row saw them all: two
        # roundings of one similarity, divided by a small temperature, could say otherwise. So with the hardest.
        np.clip(sums.log_sums, self._positives, self.all.log_sums, out=sums.log_sums)
        np.copyto(sums.log_sums, self.all.log_sums, where=sums.keys == self.keys)
        np.minimum(sums.hardest, self.all.hardest, out=sums.hardest)
        measures = inputs.graph.measure(perm, self.size, drop_last=settings.drop_last)
        suspects = sums.suspects[counted]
        sizes = np.bincount(sums.batch[counted])
        figures = {
            "bandwidth.plan": measures.bandwidth,
            "profile.plan": measures.profile,
            "in_batch_edge_share.plan": measures.in_batch_edge_share,
            "false_negatives.suspected_pairs": int(suspects.sum()) // 2,
            "false_negatives.rows": int(np.count_nonzero(suspects)),
            "similarity.negative.plan": float(sums.negatives[counted].sum() / (sizes * (sizes - 1)).sum()),
        }
        return [figures | self._loss_figures(number, sums, counted) for number in range(len(settings.temperatures))]

    def _loss_figures(self, number: int, sums: BatchSums, counted: Ints) -> Figures:
        """What the losses say of an order at a temperature."""
        inputs, temperature = self.inputs, self.inputs.settings.temperatures[number]
        rows, factor, added = self.rows(counted)
        own, positive = inputs.diagonal[rows], self._positives[number, 0, rows]
        whole, train = (factor * losses[..., rows] for losses in (self.whole[number], self.losses(sums, number)))
        gap, masked_gap = (whole - train).mean(axis=(1, 2)).tolist()
        batch = sums.batch[rows]
        figures: Figures = {
            "loss.global": float(whole[0].mean()) + added,
            "loss.plan": float(train[0].mean()) + added,
            "gap.plan": gap,
            "gap.masked.plan": masked_gap,
            "gap.oracle": factor * float(self._oracle[number][:, rows].mean()),
            "positive_probability.global": float(np.exp(positive - self.all.log_sums[0, number][:, rows]).mean()),
            "positive_probability.plan": float(np.exp(positive - sums.log_sums[0, number][:, rows]).mean()),
            "similarity.positive": float(own.mean()),
            "batch_losses": np.bincount(batch, train[0].mean(axis=0)) / np.maximum(np.bincount(batch), 1),
        }
        if self.comparable:
            for path, hardest in (("plan", sums.hardest[0, 0]), ("global", self.all.hardest[0, 0])):
                figures[f"accuracy.{path}"] = float(np.mean(hardest[rows] <= own + TIE))
        if self.comparable and self.loss.kind != "triplet":
            figures["learnable_share.plan"] = float(sums.learnable[number][:, rows].mean())
        if self.in_nats:  # van den Oord et al. (2018)
            figures["mutual_information_bound"] = float(np.log(sums.keys[rows]).mean()) - figures["loss.plan"]
        if inputs.coordinates is not None:
            in_batches = inputs.coordinates.in_batches(counted, self.size, temperature)
            for path, losses in (("plan", in_batches), ("global", inputs.coordinates.in_all[number])):
                figures[f"coordinates.{path}"] = factor * float(losses[:, rows][[*self.loss.sides]].mean()) + added
        if self.bounded:
            figures |= self._bounds(sums, rows, temperature, gap)
        return figures

    def _bounds(self, sums: BatchSums, rows: Ints, temperature: float, gap: float) -> Figures:
        """The translation and the log-sum-exp bound on the gap (docs/method.md), and what an order can raise."""
        own, least = self.inputs.diagonal[rows], sums.least[:, rows]
        here = np.maximum(sums.hardest[0][:, rows], own)
        largest = np.maximum(self.all.hardest[0][:, rows], own)
        translation = float(((largest - least) / temperature + np.log(self.keys / sums.keys[rows])).mean())
        logsumexp = float((largest - here).mean()) / temperature + log(self.keys)
        return {
            "objective.translation.plan": float(least.mean(dtype=np.float64)),
            "objective.logsumexp.plan": float(here.mean()),
            # The true gap is never above the true bounds, but where they are equal the rounded one can be.
            "bounds.translation": max(translation, gap),
            "bounds.logsumexp": max(logsumexp, gap),
        }

    def rows(self, counted: Ints) -> tuple[Ints, float, float]:
        """Those of the counted rows that have a loss, and what its mean is multiplied by and what is added to that."""
        return counted, 1.0, 0.0

    def losses(self, seen: Seen, number: int) -> Floats:
        """(2, S, N) the loss of each row and direction at a temperature, and that without suspected pairs."""
        return seen.log_sums[:, number] - self._positives[number]

    def oracle(self, sides: Sequence[Sequence[KeySums]]) -> Floats:
        """(T, S, N) each row's gap if it saw its own hardest negatives, out of reach of orders."""
        gaps = np.zeros_like(self.all.log_sums[0])
        negatives = self.loss.oracle_negatives(self.inputs.pairs.rows, self.size)
        # Every row's own k − 1 hardest hold its hardest, which is all that triplet asks for.
        if negatives == self.keys - 1 or self.loss.kind == "triplet":
            return gaps
        for side, parts in enumerate(sides):
            hardest = parts[0].hardest
            if self.loss.views:
                hardest = np.sort(np.hstack([part.hardest for part in parts]))[:, ::-1]
            for number, temperature in enumerate(self.inputs.settings.temperatures):
                of_negatives = log_sum_exp(hardest[:, :negatives], temperature)
                seen = np.logaddexp(of_negatives, self._positives[number, 0])
                gaps[number, side] = np.maximum(self.all.log_sums[0, number, side] - seen, 0.0)
        return gaps


def share(part: float, whole: float, temperature: float) -> float | None:
    """part / whole; None where the whole is nothing but the rounding of float32 similarities."""
    rounding = max(1e-9, FLOAT32_UNIT_ROUNDOFF / temperature)
    return None if abs(whole) <= rounding else part / whole


class TripletReports(OrderReports):
    """With the hardest negative: max(0, margin + max_j s_ij − s_ii), j ≠ i, in units of similarity.

    Hermans, Beyer and Leibe, In Defense of the Triplet Loss (2017): batch-hard, here x→y and y→x with the row's one
    positive. Over all rows the maximum is over all N − 1 negatives, in training over those of the batch, so the gap
    says how much harder the hardest negative of the data is than the hardest one that training sees. Every row's own
    k − 1 hardest hold its hardest, so the oracle's gap is 0 and the closed share is the reduction.
    """

    in_nats = bounded = False

    def losses(self, seen: Seen, number: int) -> Floats:
        return np.maximum(self.loss.margin + seen.hardest - self.inputs.diagonal, 0.0)  # 0 without negatives, −∞


class BscReports(OrderReports):
    """The batch-softmax contrastive loss with several positives a row, averaged outside the logarithm.

    Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022): L_i = mean
    over the positives p of i among the keys of [ −s_ip / τ + log Σ_j exp(s_ij / τ) ], x→y and y→x. Positives of i are
    the rows with its id; the sum is over all keys, positives included. A row that is labelled negative is a key for
    others but asks nothing itself and is nobody's positive: 1[y_i > t] in eq. 5, which divides by the number of all
    rows. Eq. 6 adds the mean squared distance of s_ii from the label, which no order changes. The paper adds x→y and
    y→x; this is their mean, as in the authors' code.

    The positives of a row differ between its batch and all rows, so the gap L_global − L_train has a part that no
    choice of negatives moves, may be negative, and is bounded neither by the translation nor by the log-sum-exp bound
    (null). The oracle sees all positives and the row's own k − 1 hardest keys; with several positives it is no bound,
    and the closed share is null.

    Raises BadInput when there are too many pairs of positives.
    """

    bounded = False

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        pairs, facts, ids = inputs.pairs, inputs.facts, inputs.positives
        self._targets = np.ones(pairs.rows) if facts.labels is None else facts.labels
        self._asking = np.flatnonzero(ids >= 0)
        sizes = np.bincount(ids[self._asking])
        count = int(np.square(sizes).sum())
        if count > MOST_PAIRS:
            raise BadInput(
                f"--positives: {count:,} pairs of positives, more than the {MOST_PAIRS:,} that fit; use finer ids"
            )
        self.comparable = bool(sizes.max(initial=1) == 1)
        self.in_nats = self.comparable and loss.divide_by == "positives" and loss.mse is None
        places, self._others = Positives(ids).of(self._asking)
        self._places = self._asking[places]
        ends = (self._places, self._others), (self._others, self._places)
        self._products = np.stack([pair_values(pairs, rows, cols) for rows, cols in ends])
        super().__init__(inputs, loss, batch_size)

    def losses(self, seen: Seen, number: int) -> Floats:
        rows = self.inputs.pairs.rows
        together = seen.batch[self._places] == seen.batch[self._others]
        places = self._places[together]
        counts = np.maximum(np.bincount(places, minlength=rows), 1)
        means = [np.bincount(places, side, minlength=rows) / counts for side in self._products[:, together]]
        return seen.log_sums[:, number] - np.stack(means) / self.inputs.settings.temperatures[number]

    def rows(self, counted: Ints) -> tuple[Ints, float, float]:
        """Raises BadInput where none of them asks."""
        rows = np.intersect1d(counted, self._asking)
        if len(rows) == 0:
            raise BadInput("--labels: no positive pair is in a batch that counts; expected labels above the threshold")
        share = len(rows) / len(counted) if self.loss.divide_by == "all" else 1.0
        if self.loss.mse is None:
            return rows, share, 0.0
        squared = np.square(self.inputs.diagonal[counted] - self._targets[counted])
        return rows, self.loss.mse * share, (1.0 - self.loss.mse) * float(squared.mean())


OF_LOSS: dict[str, type[OrderReports]] = {"bsc": BscReports, "triplet": TripletReports}


def make_reports(
    pairs: PairedRows,
    perm: Ints | None,
    settings: ReportSettings,
    watcher: Progress | None = None,
    *,
    facts: RowFacts | None = None,
) -> list[GapReport]:
    """One report for each loss, batch size and temperature, in that order of nesting.

    `perm`: the (N,) permutation to report on; None tells what random batches leave and what the oracle could close.
    Raises BadInput for settings that do not fit the data, and before the passes where there is too little memory.
    """
    return [measured.report for measured in measure(ReportInputs(pairs, settings, watcher, facts or RowFacts()), perm)]


def measure(inputs: ReportInputs, perm: Ints | None) -> list[Measured]:
    """The same, and what the reports were taken from, for a page."""
    return [
        measured
        for loss in inputs.settings.losses
        for batch_size in inputs.settings.batch_sizes
        for measured in OF_LOSS.get(loss.kind, OrderReports)(inputs, loss, batch_size).of(perm)
    ]
