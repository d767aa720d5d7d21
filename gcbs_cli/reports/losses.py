"""Gap reports by every loss: what each makes of the sums over all keys and over a batch's keys, order by order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import log
from typing import Any

import numpy as np

from gcbs_cli.data.pairs import PairedRows, Positives, pair_values
from gcbs_cli.graph.adjacency import batches_of
from gcbs_cli.products.operations import FLOAT32_UNIT_ROUNDOFF
from gcbs_cli.products.sums import ACROSS
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.reports.basis import Figures, ReportInputs, RowFacts
from gcbs_cli.reports.figures import FIGURES, nest
from gcbs_cli.reports.in_batch import ROWS_AT_ONCE, BatchSums, batch_sums, log_sum_exp, of_orders, random_orders
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import Loss, ReportSettings
from gcbs_cli.system.arrays import Bools, Floats, Ints, inverse
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress

MOST_PAIRS = 1 << 28
"""Pairs of positives that are held at once, 24 bytes each."""
TIE = 4 * FLOAT32_UNIT_ROUNDOFF
"""Two float32 products of equal rows differ by no more."""
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

    log_sums: (T, 2, S, N) over all keys, without suspected pairs in the second; hardest: of each direction (N, K) the
    largest similarities to negatives; keys: how many a row has in all; suspicion: the rule for suspected pairs;
    beside: what the loss takes beside the log sums, here (N,) s_ii.
    """

    in_nats = True
    """Whether it is a cross-entropy against one positive, so that log k − L_train bounds mutual information."""
    comparable = True
    """Whether the oracle bounds what a plan can close."""
    bounded = True
    """Whether the translation and the log-sum-exp bound hold."""
    beside: Floats

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        self.inputs, self.loss, self.size = inputs, loss, batch_size
        self.suspicion, self.beside = inputs.suspicions[loss.kind == "bsc"], inputs.diagonal
        self.keys = loss.keys_in_all(inputs.pairs.rows)
        self.in_nats = self.in_nats and loss.top is None
        sums = inputs.sums[loss.kind == "bsc"]
        sides = [
            [sums[side, 1 - side], sums[side, side]] if loss.views else [sums[side, 1 - side]] for side in loss.sides
        ]
        log_sums = np.stack([np.logaddexp.reduce([part.log_sums for part in parts]) for parts in sides])
        temperatures = np.reshape(inputs.settings.temperatures, (-1, 1, 1, 1))
        self.log_sums = np.logaddexp(log_sums.transpose(2, 1, 0, 3), inputs.diagonal / temperatures)
        self.hardest = [parts[0].hardest for parts in sides]
        if loss.views:
            self.hardest = [np.sort(np.hstack([part.hardest for part in parts]))[:, ::-1] for parts in sides]
        self._oracle = self.oracle()

    @cached_property
    def _random(self) -> list[list[Figures]]:
        """What the random orders give, each at each temperature."""
        inputs, settings = self.inputs, self.inputs.settings
        with inputs.clock.step("random batches"):
            return of_orders(random_orders(inputs.pairs.rows, settings.seed, settings.trials), self._values)

    def of(self, perm: Ints | None) -> list[Measured]:
        """For each temperature."""
        inputs, part_sizes, trials = self.inputs, self.inputs.facts.part_sizes, self._random
        temperatures = inputs.settings.temperatures
        with inputs.clock.step("planned batches"):
            planned: list[Figures] = [{}] * len(temperatures) if perm is None else of_orders([perm], self._values)[0]
        measured = []
        for temperature, plan, *random in zip(temperatures, planned, *trials, strict=True):
            figures = inputs.figures | self._compared(plan, random, temperature)
            if perm is not None and part_sizes is not None:
                figures["partitions.parts"] = len(part_sizes)
                figures["partitions.edges_across"] = _edges_across(inputs, perm, part_sizes)
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
            if figure.random is not None:
                figures[figure.random] = mean(figure.path)
            if figure.spread is not None and len(random) > 1 and figure.path in random[0]:
                figures[figure.spread] = float(np.std([order[figure.path] for order in random], ddof=1))
        if not plan:
            return figures
        figures |= plan
        whole, masked = figures["gap.random_mean"], figures["gap.masked.random_mean"]
        closed = whole - plan["gap.plan"]
        figures["gap.reduction"] = _share(closed, whole, temperature)
        figures["gap.masked.reduction"] = _share(masked - plan["gap.masked.plan"], masked, temperature)
        if self.comparable:
            figures["gap.closed_share"] = _share(closed, whole - plan["gap.oracle"], temperature)
        return figures

    def _values(self, perm: Ints) -> list[Figures]:
        """The figures of an order at each temperature, by the paths of a plan's figures; and what `Measured` has."""
        inputs, settings = self.inputs, self.inputs.settings
        counted = perm[: len(perm) - len(perm) % self.size] if settings.drop_last else perm
        sums = batch_sums(inputs.pairs, perm, self.size, settings.temperatures, self.loss, self.suspicion)
        order_figures = self._order_figures(perm, counted, sums)
        batch_of_row = batches_of(perm, self.size, drop_last=settings.drop_last)
        beside = self.beside_in(sums, batch_of_row)
        return [
            order_figures | self._loss_figures(number, sums, counted, beside, batch_of_row)
            for number in range(len(settings.temperatures))
        ]

    def _order_figures(self, perm: Ints, counted: Ints, sums: BatchSums) -> Figures:
        """What the graph, the suspected pairs and the mean products say of an order, whatever the temperature."""
        graph = self.inputs.graph
        measures = graph.measure(perm, self.size, drop_last=self.inputs.settings.drop_last)
        suspects = sums.suspects[counted]
        hard = np.add.reduceat(graph.degrees[counted], np.arange(0, len(counted), self.size)) > 0
        in_batch, in_all = self.inputs.mean_negatives(counted, self.size)
        return {
            "bandwidth.plan": measures.bandwidth,
            "profile.plan": measures.profile,
            "in_batch_edge_share.plan": measures.in_batch_edge_share,
            "graph.isolated_batches": int(np.count_nonzero(~hard)),
            "false_negatives.suspected_pairs": int(suspects.sum()) // 2,
            "false_negatives.rows": int(np.count_nonzero(suspects)),
            "similarity.negative.plan": in_batch,
            "similarity.negative.global": in_all,
            "batch_hard": hard,
        }

    def _loss_figures(self, number: int, sums: BatchSums, counted: Ints, beside: Floats, batch_of_row: Ints) -> Figures:
        """What the losses say of an order at a temperature."""
        inputs, temperature = self.inputs, self.inputs.settings.temperatures[number]
        rows, factor, added = self.rows(counted)
        own = inputs.diagonal[rows]
        positive = own / temperature
        total = self.log_sums[number][..., rows]
        # A batch's sums lie between the positive alone and all keys, and are these where the row saw them all: two
        # roundings of one similarity, divided by a small temperature, could say otherwise.
        seen = np.clip(sums.log_sums[number][..., rows], positive, total)
        seen = np.where(sums.seen[rows] == self.keys, total, seen)
        whole = factor * self.losses(total, self.beside[..., rows], temperature)
        train = factor * self.losses(seen, beside[..., rows], temperature)
        gap, masked_gap = (whole - train).mean(axis=(1, 2)).tolist()
        rows_of_batch = np.maximum(np.bincount(batch_of_row[rows]), 1)
        figures: Figures = {
            "loss.global": float(whole[0].mean()) + added,
            "loss.plan": float(train[0].mean()) + added,
            "gap.plan": gap,
            "gap.masked.plan": masked_gap,
            "gap.oracle": factor * float(self._oracle[number][:, rows].mean()),
            "positive_probability.global": float(np.exp(positive - total[0]).mean()),
            "positive_probability.plan": float(np.exp(positive - seen[0]).mean()),
            "similarity.positive": float(own.mean()),
            "batch_losses": np.bincount(batch_of_row[rows], train[0].mean(axis=0)) / rows_of_batch,
        }
        if self.comparable:
            for path, hardest in (("plan", sums.hardest[0, 0]), ("global", self.hardest[0][:, 0])):
                figures[f"accuracy.{path}"] = float(np.mean(hardest[rows] <= own + TIE))
        if self.in_nats:  # van den Oord et al. (2018)
            figures["mutual_information_bound"] = float(np.log(sums.seen[rows]).mean()) - figures["loss.plan"]
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
        # The largest of all keys cannot lie below a key of the batch, but two roundings of one product can.
        largest = np.maximum([keys[rows, 0] for keys in self.hardest], own)
        reach = np.maximum(largest - least, 0.0) / temperature
        excess = np.maximum(largest - here, 0.0) / temperature
        translation = float((reach + np.log(self.keys / sums.seen[rows])).mean())
        logsumexp = float(excess.mean()) + log(self.keys)
        return {
            "objective.translation.plan": float(least.mean(dtype=np.float64)),
            "objective.logsumexp.plan": float(here.mean()),
            # The true gap is never above the true bounds, but where they are equal the rounded one can be.
            "bounds.translation": max(translation, gap),
            "bounds.logsumexp": max(logsumexp, gap),
        }

    def beside_in(self, sums: BatchSums, batch_of_row: Ints) -> Floats:
        """What the loss takes beside the log sums in the batches of an order, whose sums these are."""
        return self.beside

    def rows(self, counted: Ints) -> tuple[Ints, float, float]:
        """Those of the counted rows that have a loss, and what its mean is multiplied by and what is added to that."""
        return counted, 1.0, 0.0

    def losses(self, log_sums: Floats, beside: Floats, temperature: float) -> Floats:
        """(2, S, n) the loss of each row and direction, and that without suspected pairs."""
        return log_sums - beside / temperature

    def oracle(self) -> Floats:
        """(T, S, N) each row's gap if it saw its own hardest negatives, out of reach of orders."""
        log_sums = self.log_sums[:, 0]
        negatives = self.loss.oracle_negatives(self.inputs.pairs.rows, self.size)
        if negatives == self.keys - 1:
            return np.zeros_like(log_sums)
        seen = np.empty_like(log_sums)
        starts = range(0, log_sums.shape[-1], ROWS_AT_ONCE)
        cases = product(enumerate(self.inputs.settings.temperatures), enumerate(self.hardest), starts)
        for (number, temperature), (side, hardest), start in cases:
            some = slice(start, start + ROWS_AT_ONCE)
            keys = np.column_stack([self.inputs.diagonal[some], hardest[some, :negatives]]).astype(np.float32)
            seen[number, side, some] = log_sum_exp(keys, temperature)
        return np.maximum(log_sums - seen, 0.0)


def _share(part: float, whole: float, temperature: float) -> float | None:
    """part / whole; None where the whole is nothing but the rounding of float32 similarities."""
    rounding = max(1e-9, FLOAT32_UNIT_ROUNDOFF / temperature)
    return None if abs(whole) <= rounding else part / whole


def _edges_across(inputs: ReportInputs, perm: Ints, part_sizes: Sequence[int]) -> float | None:
    """Share of the hard pairs whose rows lie in different parts."""
    if inputs.graph.edges == 0:
        return None
    part = np.repeat(np.arange(len(part_sizes)), part_sizes)[inverse(perm)]
    return float(np.mean(part[inputs.graph.row_of_entry()] != part[inputs.graph.indices]))


class TripletReports(OrderReports):
    """With the hardest negative: max(0, margin + max_j s_ij − s_ii), j ≠ i, in units of similarity.

    Hermans, Beyer and Leibe, In Defense of the Triplet Loss (2017): batch-hard, here x→y and y→x with the row's one
    positive. Over all rows the maximum is over all N − 1 negatives, in training over those of the batch, so the gap
    says how much harder the hardest negative of the data is than the hardest one that training sees. Every row's own
    k − 1 hardest hold its hardest, so the oracle's gap is 0 and the closed share is the reduction.

    beside: (2, 2, N) margin + max_j s_ij − s_ii, by side, and without suspected pairs; −∞ without negatives.
    """

    in_nats = bounded = False

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        super().__init__(inputs, loss, batch_size)
        across = [inputs.sums[False][sides] for sides in ACROSS]
        hardest = [[side.hardest[:, 0] for side in across], [side.hardest_unsuspected for side in across]]
        self.beside = loss.margin + np.array(hardest) - inputs.diagonal

    def beside_in(self, sums: BatchSums, batch_of_row: Ints) -> Floats:
        # The hardest of a batch is one of all, however two roundings of one product may differ.
        return np.minimum(self.loss.margin + sums.hardest - self.inputs.diagonal, self.beside)

    def losses(self, log_sums: Floats, beside: Floats, temperature: float) -> Floats:
        return np.maximum(beside, 0.0)

    def oracle(self) -> Floats:
        return np.zeros_like(self.log_sums[:, 0])


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

    beside: (2, N) the mean similarity of a row to its positives, by side; 0 for rows without any.

    Raises BadInput when there are too many pairs of positives.
    """

    bounded = False

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        super().__init__(inputs, loss, batch_size)
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
        self.beside = self._means(slice(None))

    def _means(self, chosen: "slice | Bools") -> Floats:
        """(2, N) the mean of each row's values, of the chosen pairs."""
        rows, places = self.inputs.pairs.rows, self._places[chosen]
        counts = np.maximum(np.bincount(places, minlength=rows), 1)
        return np.stack([np.bincount(places, side, minlength=rows) / counts for side in self._products[:, chosen]])

    def beside_in(self, sums: BatchSums, batch_of_row: Ints) -> Floats:
        return self._means(batch_of_row[self._places] == batch_of_row[self._others])

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
    return [measured.report for measured in measure(ReportInputs(pairs, settings, watcher, facts), perm)]


def measure(inputs: ReportInputs, perm: Ints | None) -> list[Measured]:
    """The same, and what the reports were taken from, for a page."""
    return [
        measured
        for loss in inputs.settings.losses
        for batch_size in inputs.settings.batch_sizes
        for measured in OF_LOSS.get(loss.kind, OrderReports)(inputs, loss, batch_size).of(perm)
    ]
