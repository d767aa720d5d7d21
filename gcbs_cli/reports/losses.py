"""The losses a report knows: what each makes of the sums over all keys and over a batch's keys, order by order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import log
from typing import Any

import numpy as np

from gcbs_cli.graph.adjacency import batches_of
from gcbs_cli.products.operations import FLOAT32_UNIT_ROUNDOFF
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.reports.basis import Figures, ReportInputs
from gcbs_cli.reports.figures import FIGURES, nest
from gcbs_cli.reports.in_batch import ROWS_AT_ONCE, BatchSums, batch_sums, log_sum_exp, of_orders, random_orders
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import Loss
from gcbs_cli.system.arrays import Floats, Ints, inverse

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
            planned = [None] * len(temperatures) if perm is None else of_orders([perm], self._values)[0]
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
            measured.append(Measured(report, inputs, self.suspicion, perm, plan or {}, random))
        return measured

    def _compared(self, plan: Figures | None, random: list[Figures], temperature: float) -> Figures:
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
        if plan is None:
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
        rows = self.rows(counted)
        sums = batch_sums(inputs.pairs, perm, self.size, settings.temperatures, self.loss, self.suspicion)
        order_figures = self._order_figures(perm, counted, sums) | self._similarities(sums, rows, counted)
        besides = self.beside[..., rows], self.beside_in(sums, perm, self.size)[..., rows]
        batch_of_row = batches_of(perm, self.size, drop_last=settings.drop_last)[rows]
        rows_of_batch = np.maximum(np.bincount(batch_of_row), 1)
        coordinates = self._by_coordinates(counted, rows)
        factor, added = self.combined(counted)
        by_temperature = []
        for number, temperature in enumerate(settings.temperatures):
            figures, train = self._loss_figures(sums, number, rows, besides, counted)
            figures["batch_losses"] = np.bincount(batch_of_row, train.mean(axis=0)) / rows_of_batch
            if self.bounded:
                figures |= self._bounds(sums, rows, temperature, figures["gap.plan"])
            for path, losses in coordinates.items():
                figures[path] = factor * losses[number] + added
            if self.in_nats:  # van den Oord et al. (2018)
                figures["mutual_information_bound"] = float(np.log(sums.seen[rows]).mean()) - figures["loss.plan"]
            by_temperature.append(order_figures | figures)
        return by_temperature

    def _order_figures(self, perm: Ints, counted: Ints, sums: BatchSums) -> Figures:
        """What the graph and the suspected pairs say about an order, whatever the temperature."""
        graph = self.inputs.graph
        (measures,) = graph.measure([perm], self.size, drop_last=self.inputs.settings.drop_last)
        suspects = sums.suspects[counted]
        hard = np.add.reduceat(graph.degrees[counted], np.arange(0, len(counted), self.size)) > 0
        return {
            "bandwidth.plan": measures.bandwidth,
            "profile.plan": measures.profile,
            "in_batch_edge_share.plan": measures.in_batch_edge_share,
            "graph.isolated_batches": int(np.count_nonzero(~hard)),
            "false_negatives.suspected_pairs": int(suspects.sum()) // 2,
            "false_negatives.rows": int(np.count_nonzero(suspects)),
            "batch_hard": hard,
        }

    def _loss_figures(
        self, sums: BatchSums, number: int, rows: Ints, besides: tuple[Floats, Floats], counted: Ints
    ) -> tuple[Figures, Floats]:
        """Losses and gaps at a temperature, and (S, n) the training loss of each row and direction."""
        temperature = self.inputs.settings.temperatures[number]
        positive = self.inputs.diagonal[rows] / temperature
        total = self.log_sums[number][..., rows]
        # A batch's sums lie between the positive alone and all keys, and are these where the row saw them all: two
        # roundings of one similarity, divided by a small temperature, could say otherwise.
        seen = np.clip(sums.log_sums[number][..., rows], positive, total)
        seen = np.where(sums.seen[rows] == self.keys, total, seen)
        factor, added = self.combined(counted)
        whole = factor * self.losses(total, besides[0], temperature)
        train = factor * self.losses(seen, besides[1], temperature)
        gap, masked_gap = (whole - train).mean(axis=(1, 2)).tolist()
        figures: Figures = {
            "loss.global": float(whole[0].mean()) + added,
            "loss.plan": float(train[0].mean()) + added,
            "gap.plan": gap,
            "gap.masked.plan": masked_gap,
            "gap.oracle": factor * float(self._oracle[number][:, rows].mean()),
            "positive_probability.global": float(np.exp(positive - total[0]).mean()),
            "positive_probability.plan": float(np.exp(positive - seen[0]).mean()),
        }
        return figures, train[0]

    def _similarities(self, sums: BatchSums, rows: Ints, counted: Ints) -> Figures:
        """Means over rows of the products in a batch, of which no temperature is a part."""
        positive = self.inputs.diagonal[rows]
        in_batch, in_all = self.inputs.mean_negatives(counted, self.size)
        figures: Figures = {
            "similarity.positive": float(positive.mean()),
            "similarity.negative.plan": in_batch,
            "similarity.negative.global": in_all,
        }
        if self.comparable:
            for path, hardest in (("plan", sums.hardest[0, 0]), ("global", self.hardest[0][:, 0])):
                figures[f"accuracy.{path}"] = float(np.mean(hardest[rows] <= positive + TIE))
        if self.bounded:  # the part of each bound that an order can raise
            figures["objective.translation.plan"] = float(sums.least[:, rows].mean(dtype=np.float64))
            figures["objective.logsumexp.plan"] = float(np.maximum(sums.hardest[0][:, rows], positive).mean())
        return figures

    def _by_coordinates(self, counted: Ints, rows: Ints) -> dict[str, list[float]]:
        """Mean losses at each temperature where coordinates are normalised, if that was asked for."""
        losses, sides = self.inputs.coordinates, list(self.loss.sides)
        if losses is None:
            return {}
        of_rows = {"coordinates.plan": losses.in_batches(counted, self.size), "coordinates.global": losses.in_all}
        return {path: part[:, sides][..., rows].mean(axis=(1, 2)).tolist() for path, part in of_rows.items()}

    def _bounds(self, sums: BatchSums, rows: Ints, temperature: float, gap: float) -> Figures:
        """The translation and the log-sum-exp bound on the gap (docs/method.md)."""
        positive = self.inputs.diagonal[rows]
        # The largest of all keys cannot lie below a key of the batch, but two roundings of one product can.
        largest, here = (
            np.maximum(part[:, rows], positive)
            for part in (np.array([keys[:, 0] for keys in self.hardest]), sums.hardest[0])
        )
        reach = np.maximum(largest - sums.least[:, rows], 0.0) / temperature
        excess = np.maximum(largest - here, 0.0) / temperature
        translation = float((reach + np.log(self.keys / sums.seen[rows])).mean())
        logsumexp = float(excess.mean()) + log(self.keys)
        # The true gap is never above the true bounds, but where they are equal the rounded one can be.
        return {"bounds.translation": max(translation, gap), "bounds.logsumexp": max(logsumexp, gap)}

    def beside_in(self, sums: BatchSums, perm: Ints, batch_size: int) -> Floats:
        """What the loss takes beside the log sums in the batches of an order, whose sums these are."""
        return self.beside

    def rows(self, counted: Ints) -> Ints:
        """Those of the counted rows that have a loss."""
        return counted

    def combined(self, counted: Ints) -> tuple[float, float]:
        """What the mean loss over the rows that have one is multiplied by, and what is added, for the counted rows."""
        return 1.0, 0.0

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
