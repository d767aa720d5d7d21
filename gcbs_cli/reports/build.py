"""Build gap reports: one pass over all pairs, then the plan's and the random trials' batches."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.adjacency import batches_of, measure_order
from gcbs_cli.products.operations import FLOAT32_UNIT_ROUNDOFF
from gcbs_cli.reports.basis import Figures, ReportInputs, RowFacts
from gcbs_cli.reports.bsc import BscTerms
from gcbs_cli.reports.figures import FIGURES, nest
from gcbs_cli.reports.in_batch import BatchSums, batch_sums
from gcbs_cli.reports.losses import LossTerms, TripletTerms
from gcbs_cli.reports.representation import mean_negatives
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.report import Loss, ReportSettings
from gcbs_cli.system.arrays import Floats, Ints
from gcbs_cli.system.limits import available_cpus
from gcbs_cli.system.progress import Progress
from gcbs_cli.system.threads import in_order

TRIALS_STREAM = 0x7121A1
"""Sets the draws of the random trials apart from others of the same seed."""
TIE = 4 * FLOAT32_UNIT_ROUNDOFF
"""Two float32 products of equal rows differ by no more."""
OWN_TERMS: dict[str, type[LossTerms]] = {"bsc": BscTerms, "triplet": TripletTerms}
OF_ROWS = ("gap.oracle", "similarity.positive", *(one.path for one in FIGURES if one.path.endswith(".global")))
"""Figures that depend on an order only by the rows that it counts."""


@dataclass(frozen=True)
class Measured:
    """A report and what it was taken from.

    perm: (N,) the plan; batch_losses: (B,) of its batches, none without one; trial_losses: those of random orders.
    """

    report: GapReport
    inputs: ReportInputs
    perm: Ints | None
    batch_losses: Floats
    trial_losses: list[float]


def make_reports(
    pair: PairedRows,
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
    return [measured.report for measured in measure(ReportInputs(pair, settings, watcher, facts), perm)]


def measure(inputs: ReportInputs, perm: Ints | None) -> list[Measured]:
    """The same, and what the reports were taken from, for a page."""
    return [
        measured
        for loss in inputs.settings.losses
        for batch_size in inputs.settings.batch_sizes
        for measured in OrderReports(inputs, loss, batch_size).of(perm)
    ]


class OrderReports:
    """Reports on one order after the other, at one loss and batch size: the same random orders serve them all."""

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        self._inputs, self._size = inputs, batch_size
        self._terms = terms = OWN_TERMS.get(loss.kind, LossTerms)(inputs, loss)
        negatives = loss.oracle_negatives(inputs.pair.rows, batch_size)
        self._oracle = [terms.oracle(number, negatives) for number in range(len(inputs.settings.temperatures))]
        with inputs.clock.step("random batches"):
            self._random = self._values(random_order(inputs, number) for number in range(inputs.settings.trials))

    def of(self, perm: Ints | None) -> list[Measured]:
        """For each temperature."""
        inputs, part_sizes = self._inputs, self._inputs.facts.part_sizes
        with inputs.clock.step("planned batches"):
            plans = [] if perm is None else self._values([perm])
        found = []
        for number, temperature in enumerate(inputs.settings.temperatures):
            random = [values[number] for values in self._random]
            plan = plans[0][number] if plans else None
            figures = inputs.figures | self._compared(plan, random, temperature)
            if perm is not None and part_sizes is not None:
                figures["partitions.parts"] = len(part_sizes)
                figures["partitions.edges_across"] = _edges_across(inputs, perm, part_sizes)
            report = GapReport(
                n=inputs.pair.rows,
                dim=inputs.pair.dim,
                batch_size=self._size,
                temperature=temperature,
                loss_kind=self._terms.loss.name,
                timings=dict(inputs.clock.seconds),
                **nest({figure.path: figures.get(figure.path) for figure in FIGURES}),
            )
            batch_losses = np.empty(0) if plan is None else plan["batch_losses"]
            found.append(Measured(report, inputs, perm, batch_losses, [order["loss.plan"] for order in random]))
        return found

    def _compared(self, plan: Figures | None, random: list[Figures], temperature: float) -> Figures:
        """The figures of the plan and of random orders, and what the first are beside the second."""

        def mean(path: str) -> float | None:
            values: list[Any] = [order.get(path) for order in random]
            return None if None in values else float(np.mean(values))

        found: Figures = {path: mean(path) for path in OF_ROWS}
        for figure in FIGURES:
            if figure.random is not None:
                found[figure.random] = mean(figure.path)
            if figure.spread is not None and len(random) > 1 and figure.path in random[0]:
                found[figure.spread] = float(np.std([order[figure.path] for order in random], ddof=1))
        if plan is None:
            return found
        found |= plan
        whole, masked = found["gap.random_mean"], found["gap.masked.random_mean"]
        closed = whole - plan["gap.plan"]
        found["gap.reduction"] = _share(closed, whole, temperature)
        found["gap.masked.reduction"] = _share(masked - plan["gap.masked.plan"], masked, temperature)
        if self._terms.comparable:
            found["gap.closed_share"] = _share(closed, whole - plan["gap.oracle"], temperature)
        return found

    def _values(self, orders: Iterable[Ints]) -> list[list[Figures]]:
        """What each order gives, at each temperature."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):  # products of batches are too small for several threads
            return list(in_order(available_cpus(), orders, self._values_of))

    def _values_of(self, perm: Ints) -> list[Figures]:
        """Means over the counted rows and the loss's directions, by the paths of a plan's figures; and the (B,) mean
        losses of the batches, NaN for one in which no row counts.
        """
        inputs, terms, size = self._inputs, self._terms, self._size
        settings, drop_last = inputs.settings, inputs.settings.drop_last
        counted = perm[: len(perm) - len(perm) % size] if drop_last else perm
        rows, batch_of_row = terms.rows(counted), batches_of(perm, size, drop_last=drop_last)
        sums = batch_sums(inputs.pair, perm, size, settings.temperatures, terms.suspects, terms.loss)
        beside, beside_here = (part[..., rows] for part in (terms.beside, terms.beside_in(sums, perm, size)))
        measures = measure_order(inputs.graph, perm, size, drop_last=drop_last)
        suspects = terms.suspects.in_batches(batch_of_row)
        degrees = np.add.reduceat(inputs.graph.degrees[counted], np.arange(0, len(counted), size))
        of_order: Figures = {
            "bandwidth.plan": measures.bandwidth,
            "profile.plan": measures.profile,
            "in_batch_edge_share.plan": measures.in_batch_edge_share,
            "graph.isolated_batches": int(np.count_nonzero(degrees == 0)),
            "false_negatives.suspected_pairs": len(suspects),
            "false_negatives.rows": suspects.rows(),
        }
        of_order |= self._similarities(sums, rows, counted)
        factor, added = terms.combined(counted)
        coordinates = self._by_coordinates(counted, rows)
        found = []
        for number, temperature in enumerate(settings.temperatures):
            positive, total = inputs.diagonal[rows] / temperature, terms.log_sums[number][..., rows]
            # A batch's sums lie between the positive alone and all keys, and are these where the row saw them all: two
            # roundings of one similarity, divided by a small temperature, could say otherwise.
            seen = np.clip(sums.log_sums[number][..., rows], positive, total)
            seen = np.where(sums.seen[rows] == terms.keys, total, seen)
            whole = factor * terms.losses(total, beside, temperature)
            train = factor * terms.losses(seen, beside_here, temperature)
            gap, masked_gap = (whole - train).mean(axis=(1, 2)).tolist()
            translation, logsumexp = self._bounds(sums, rows, temperature, gap)
            figures: Figures = of_order | {
                "loss.global": float(whole[0].mean()) + added,
                "loss.plan": float(train[0].mean()) + added,
                "gap.plan": gap,
                "gap.masked.plan": masked_gap,
                "gap.oracle": factor * float(self._oracle[number][:, rows].mean()),
                "bounds.translation": translation,
                "bounds.logsumexp": logsumexp,
                "positive_probability.global": float(np.exp(positive - total[0]).mean()),
                "positive_probability.plan": float(np.exp(positive - seen[0]).mean()),
            }
            for path, losses in coordinates.items():
                figures[path] = factor * losses[number] + added
            if terms.in_nats:  # van den Oord et al. (2018)
                figures["mutual_information_bound"] = float(np.log(sums.seen[rows]).mean()) - figures["loss.plan"]
            with np.errstate(invalid="ignore"):
                summed = np.bincount(batch_of_row[rows], train[0].mean(axis=0))
                figures["batch_losses"] = summed / np.bincount(batch_of_row[rows])
            found.append(figures)
        return found

    def _similarities(self, sums: BatchSums, rows: Ints, counted: Ints) -> Figures:
        """Means over rows of the products in a batch, of which no temperature is a part."""
        inputs, terms, positive = self._inputs, self._terms, self._inputs.diagonal[rows]
        total = float(inputs.diagonal[counted].sum())
        in_batch, in_all = mean_negatives(inputs.pair, counted, self._size, total, inputs.total_y)
        found: Figures = {
            "similarity.positive": float(positive.mean()),
            "similarity.negative.plan": in_batch,
            "similarity.negative.global": in_all,
        }
        if terms.comparable:
            for path, hardest in (("plan", sums.hardest[0, 0]), ("global", terms.hardest[0][:, 0])):
                found[f"accuracy.{path}"] = float(np.mean(hardest[rows] <= positive + TIE))
        if terms.bounded:  # the part of each bound that an order can raise
            found["objective.translation.plan"] = float(sums.least[:, rows].mean(dtype=np.float64))
            found["objective.logsumexp.plan"] = float(np.maximum(sums.hardest[0][:, rows], positive).mean())
        return found

    def _by_coordinates(self, counted: Ints, rows: Ints) -> dict[str, list[float]]:
        """Mean losses at each temperature where coordinates are normalised, if that was asked for."""
        losses, sides = self._inputs.coordinates, list(self._terms.loss.sides)
        if losses is None:
            return {}
        of_rows = {"coordinates.plan": losses.in_batches(counted, self._size), "coordinates.global": losses.in_all}
        return {path: part[:, sides][..., rows].mean(axis=(1, 2)).tolist() for path, part in of_rows.items()}

    def _bounds(self, sums: BatchSums, rows: Ints, temperature: float, gap: float) -> tuple[float | None, float | None]:
        """The translation and the log-sum-exp bound on the gap (docs/method.md)."""
        terms, positive = self._terms, self._inputs.diagonal[rows]
        if not terms.bounded:
            return None, None
        # The largest of all keys cannot lie below a key of the batch, but two roundings of one product can.
        largest, here = (
            np.maximum(part[:, rows], positive)
            for part in (np.array([keys[:, 0] for keys in terms.hardest]), sums.hardest[0])
        )
        reach = np.maximum(largest - sums.least[:, rows], 0.0) / temperature
        excess = np.maximum(largest - here, 0.0) / temperature
        translation = float((reach + np.log(terms.keys / sums.seen[rows])).mean())
        logsumexp = float(excess.mean()) + log(terms.keys)
        # The true gap is never above the true bounds, but where they are equal the rounded one can be.
        return max(translation, gap), max(logsumexp, gap)


def random_order(inputs: ReportInputs, number: int) -> Ints:
    """The random order of the trial with this number."""
    order = np.random.default_rng([inputs.settings.seed, TRIALS_STREAM, number]).permutation(inputs.pair.rows)
    return order.astype(np.int64)


def _share(part: float, whole: float, temperature: float) -> float | None:
    """part / whole; None where the whole is nothing but the rounding of float32 similarities."""
    rounding = max(1e-9, FLOAT32_UNIT_ROUNDOFF / temperature)
    return None if abs(whole) <= rounding else part / whole


def _edges_across(inputs: ReportInputs, perm: Ints, part_sizes: Sequence[int]) -> float | None:
    """Share of the hard pairs whose rows lie in different parts."""
    if inputs.graph.edges == 0:
        return None
    part = np.empty(len(perm), np.int64)
    part[perm] = np.repeat(np.arange(len(part_sizes)), part_sizes)
    lower, higher = inputs.graph.pairs()
    return float(np.mean(part[lower] != part[higher]))
