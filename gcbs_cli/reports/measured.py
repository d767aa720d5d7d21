"""What a plan and random orders make of one loss, batch size and temperature: what the figures are taken from."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.graph.measures import OrderMeasures, batches_of, measure_order
from gcbs_cli.products.operations import FLOAT32_UNIT_ROUNDOFF
from gcbs_cli.reports.basis import ReportInputs, all_keys
from gcbs_cli.reports.in_batch import BatchSums, batch_sums
from gcbs_cli.reports.losses import AllKeys, LossTerms, between, outwards
from gcbs_cli.settings.report import Loss
from gcbs_cli.system.limits import available_cpus

TRIALS_STREAM = 0x7121A1
"""Sets the draws of the random trials apart from others of the same seed."""


@dataclass(frozen=True)
class OrderValues:
    """One order at one loss, batch size and temperature: means over its counted rows and the loss's directions.

    Losses, gaps and bounds in nats (triplet: similarity). global_loss, global_probability, oracle_gap: of the counted
    rows among all keys. log_keys: log of the number of keys that a row sees. batch_losses: (B,), NaN for a batch in
    which no row counts.
    """

    global_loss: float
    global_probability: float
    oracle_gap: float
    train_loss: float
    gap: float
    masked_gap: float
    translation_bound: float | None
    logsumexp_bound: float | None
    positive_probability: float
    log_keys: float
    bandwidth: int
    profile: int
    in_batch_edge_share: float | None
    isolated_batches: int
    suspected_pairs: int
    suspected_rows: int
    batch_losses: NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """All that the figures of one report are taken from. perm: (N,) the plan; plan: what it gives, None without one."""

    inputs: ReportInputs
    loss: Loss
    terms: LossTerms
    batch_size: int
    temperature: float
    perm: NDArray[np.int64] | None
    plan: OrderValues | None
    random: list[OrderValues]

    @property
    def graph(self) -> Adjacency:
        """Of the hard pairs."""
        return self.inputs.graph

    @cached_property
    def identity(self) -> OrderMeasures:
        """The graph in the order of the input."""
        return measure_order(self.graph, np.arange(self.inputs.pair.rows), self.batch_size)

    def of_rows(self, name: str) -> float | None:
        """A value that depends on an order only by the rows that it counts: the plan's, or that of random orders."""
        return self.random_mean(name) if self.plan is None else getattr(self.plan, name)

    def random_mean(self, name: str) -> float | None:
        """The mean over random orders of a value of `OrderValues`; None where they have none."""
        values = [getattr(order, name) for order in self.random]
        return None if None in values else float(np.mean(values))

    def random_std(self, name: str) -> float | None:
        """Their standard deviation; None of one order."""
        values = [getattr(order, name) for order in self.random]
        return float(np.std(values, ddof=1)) if len(values) > 1 else None

    def reduction(self, name: str) -> float | None:
        """1 − plan / random of a gap; None where random orders leave none."""
        random = self.random_mean(name)
        share = None if self.plan is None or random is None else self._ratio(getattr(self.plan, name), random)
        return None if share is None else 1.0 - share

    @property
    def closed_share(self) -> float | None:
        """(random − plan) / (random − oracle); None where the oracle bounds nothing."""
        random = self.random_mean("gap")
        if self.plan is None or random is None or not self.terms.comparable:
            return None
        return self._ratio(random - self.plan.gap, random - self.plan.oracle_gap)

    @property
    def information(self) -> float | None:
        """A lower bound on the mutual information of X and Y, in nats; van den Oord et al. (2018)."""
        if self.plan is None or not self.terms.in_nats:
            return None
        return self.plan.log_keys - self.plan.train_loss

    @property
    def parts(self) -> int | None:
        """The number of parts that the plan was made in."""
        return None if self._part_sizes is None else len(self._part_sizes)

    @property
    def edges_across(self) -> float | None:
        """Share of the hard pairs whose rows lie in different parts."""
        if self._part_sizes is None or self.perm is None or self.graph.edges == 0:
            return None
        part = np.empty(len(self.perm), np.int64)
        part[self.perm] = np.repeat(np.arange(len(self._part_sizes)), self._part_sizes)
        lower, higher = self.graph.pairs()
        return float(np.mean(part[lower] != part[higher]))

    @property
    def _part_sizes(self) -> Sequence[int] | None:
        return None if self.perm is None else self.inputs.facts.part_sizes

    def _ratio(self, part: float, whole: float) -> float | None:
        """part / whole; None where the whole is nothing but the rounding of float32 similarities."""
        rounding = max(1e-9, FLOAT32_UNIT_ROUNDOFF / self.temperature)
        return None if abs(whole) <= rounding else part / whole


def measure(inputs: ReportInputs, loss: Loss, batch_size: int, perm: NDArray[np.int64] | None) -> list[Measured]:
    """For each temperature, random orders and the plan `perm`, where there is one."""
    orders = Orders(inputs, loss, batch_size)
    with inputs.clock.step("random batches"):
        random = orders.random()
    with inputs.clock.step("planned batches"):
        plan = None if perm is None else orders.values(perm)
    return [orders.measured(number, random, perm, plan) for number in range(len(inputs.settings.temperatures))]


class Orders:
    """Values of any order at one loss and batch size."""

    def __init__(self, inputs: ReportInputs, loss: Loss, batch_size: int) -> None:
        self._inputs, self._loss, self._size = inputs, loss, batch_size
        self.terms = inputs.terms.get(loss) or LossTerms(inputs.diagonal)
        self._suspects = self.terms.suspects_among(inputs.suspects)
        self._keys = [
            self.terms.keys(keys, temperature)
            for keys, temperature in zip(all_keys(inputs, loss), inputs.settings.temperatures, strict=True)
        ]
        negatives = loss.oracle_negatives(inputs.pair.rows, batch_size)
        self._everything = [
            (
                self.terms.everything(keys.log_sums, temperature, masked=False),
                self.terms.everything(keys.masked_log_sums, temperature, masked=True),
                self.terms.oracle(keys, negatives, temperature),
            )
            for temperature, keys in zip(inputs.settings.temperatures, self._keys, strict=True)
        ]

    def random(self) -> list[list[OrderValues]]:
        """As many random orders as were asked for, each at all temperatures."""
        from threadpoolctl import threadpool_limits

        settings = self._inputs.settings
        with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(available_cpus()) as pool:
            return list(pool.map(lambda n: self._values(random_order(self._inputs, n)), range(settings.trials)))

    def measured(
        self,
        number: int,
        random: list[list[OrderValues]],
        perm: NDArray[np.int64] | None,
        plan: list[OrderValues] | None,
    ) -> Measured:
        """What figures are taken from, at the temperature with this number."""
        return Measured(
            inputs=self._inputs,
            loss=self._loss,
            terms=self.terms,
            batch_size=self._size,
            temperature=self._inputs.settings.temperatures[number],
            perm=perm,
            plan=plan[number] if plan else None,
            random=[trial[number] for trial in random],
        )

    def values(self, perm: NDArray[np.int64]) -> list[OrderValues]:
        """An order at each temperature."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(limits=1, user_api="blas"):  # products of batches are too small for several threads
            return self._values(perm)

    def _values(self, perm: NDArray[np.int64]) -> list[OrderValues]:
        inputs, size = self._inputs, self._size
        sums = batch_sums(
            inputs.pair,
            perm,
            size,
            inputs.settings.temperatures,
            self._suspects,
            keys=self._loss.keys,
            queue_batches=self._loss.queue_batches,
        )
        losses = self.terms.in_order(perm, size)
        drop_last = inputs.settings.drop_last
        counted = perm[: len(perm) - len(perm) % size] if drop_last else perm
        rows = self.terms.rows(counted)
        batch_of_row = batches_of(perm, size, drop_last=drop_last)
        measures = measure_order(inputs.graph, perm, size, drop_last=drop_last)
        suspects = self._suspects.in_batches(batch_of_row)
        degrees = np.add.reduceat(inputs.graph.degrees[counted], np.arange(0, len(counted), size))
        found = []
        for number, (temperature, keys) in enumerate(zip(inputs.settings.temperatures, self._keys, strict=True)):
            positive, seen = keys.diagonal[rows] / temperature, sums.seen[rows]
            whole, sides = seen == keys.count, list(self._loss.sides)
            batch = between(positive, sums.log_sums[sides, number][:, rows], keys.log_sums[:, rows], whole)
            masked = between(
                positive, sums.masked_log_sums[sides, number][:, rows], keys.masked_log_sums[:, rows], whole
            )
            train = losses(batch, rows, temperature, masked=False)
            masked_train = losses(masked, rows, temperature, masked=True)
            everything, masked_everything, oracle = (part[:, rows] for part in self._everything[number])
            gap = float((everything - train).mean())
            translation, logsumexp = self._bounds(sums, keys, rows, temperature, gap)
            found.append(
                OrderValues(
                    global_loss=float(everything.mean()),
                    global_probability=float(np.exp(positive - keys.log_sums[:, rows]).mean()),
                    oracle_gap=float(oracle.mean()),
                    train_loss=float(train.mean()),
                    gap=gap,
                    masked_gap=float((masked_everything - masked_train).mean()),
                    translation_bound=translation,
                    logsumexp_bound=logsumexp,
                    positive_probability=float(np.exp(positive - batch).mean()),
                    log_keys=float(np.log(seen).mean()),
                    bandwidth=measures.bandwidth,
                    profile=measures.profile,
                    in_batch_edge_share=measures.in_batch_edge_share,
                    isolated_batches=int(np.count_nonzero(degrees == 0)),
                    suspected_pairs=len(suspects),
                    suspected_rows=suspects.rows(),
                    batch_losses=_mean_by_batch(train.mean(axis=0), batch_of_row[rows]),
                )
            )
        return found

    def _bounds(
        self, sums: BatchSums, keys: AllKeys, rows: NDArray[np.int64], temperature: float, gap: float
    ) -> tuple[float | None, float | None]:
        """The translation and the log-sum-exp bound on the gap (docs/method.md)."""
        if not self.terms.bounded:
            return None, None
        sides, largest = list(self._loss.sides), keys.largest[:, rows]
        # The largest of all keys cannot lie below a key of the batch, but two roundings of one product can.
        reach = np.maximum(largest - sums.least[sides][:, rows], 0.0) / temperature
        excess = np.maximum(largest - sums.largest[sides][:, rows], 0.0) / temperature
        translation = float((reach + np.log(keys.count / sums.seen[rows])).mean())
        logsumexp = float(excess.mean()) + log(keys.count)
        return outwards(translation, gap, keys.rounding), outwards(logsumexp, gap, keys.rounding)


def random_order(inputs: ReportInputs, number: int) -> NDArray[np.int64]:
    """The random order of the trial with this number."""
    order = np.random.default_rng([inputs.settings.seed, TRIALS_STREAM, number]).permutation(inputs.pair.rows)
    return order.astype(np.int64)


def _mean_by_batch(losses: NDArray[np.float64], batch: NDArray[np.int64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        means: NDArray[np.float64] = np.bincount(batch, losses) / np.bincount(batch)
    return means
