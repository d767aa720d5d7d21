"""One order of the rows, at one loss and batch size: what its batches see, next to random ones."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.graph.measures import OrderMeasures, measure_order
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.basis import Basis
from gcbs_cli.reports.held_apart import PairsInside
from gcbs_cli.reports.in_batch import BatchSums, batch_sums
from gcbs_cli.reports.losses import AllKeys, Loss, LossValues, loss_values
from gcbs_cli.system.arrays import inverse
from gcbs_cli.system.limits import available_cpus

TRIALS_STREAM = 0x7121A1
"""Sets the draws of the random trials apart from others of the same seed."""


@dataclass(frozen=True)
class MeasuredOrder:
    """One order at one batch size and loss: figures by temperature, its measures on the graph, its suspected pairs."""

    values: list[LossValues]
    measures: OrderMeasures
    suspects: SuspectPairs
    held_apart: PairsInside


def random_trials(basis: Basis, keys: list[AllKeys], loss: Loss, batch_size: int) -> list[MeasuredOrder]:
    """As many random orders as were asked for."""
    from threadpoolctl import threadpool_limits

    def trial(number: int) -> MeasuredOrder:
        order = np.random.default_rng([basis.settings.seed, TRIALS_STREAM, number]).permutation(basis.pair.rows)
        return order_figures(basis, keys, loss, batch_size, order.astype(np.int64))

    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(available_cpus()) as pool:
        return list(pool.map(trial, range(basis.settings.trials)))


def sums_of(basis: Basis, loss: Loss, batch_size: int, perm: NDArray[np.int64]) -> BatchSums:
    """What the rows see in the batches of an order."""
    return batch_sums(
        basis.pair,
        perm,
        batch_size,
        basis.settings.temperatures,
        basis.sums.suspects,
        keys=loss.keys,
        queue_batches=loss.queue_batches,
    )


def counted_rows(basis: Basis, perm: NDArray[np.int64], batch_size: int) -> NDArray[np.int64]:
    """The rows that are counted: all, or those of full batches."""
    rows = basis.pair.rows
    return perm[: rows - rows % batch_size] if basis.settings.drop_last else perm


def order_figures(
    basis: Basis, keys: list[AllKeys], loss: Loss, batch_size: int, perm: NDArray[np.int64]
) -> MeasuredOrder:
    """An order at each temperature."""
    temperatures = basis.settings.temperatures
    sums = sums_of(basis, loss, batch_size, perm)
    kept = counted_rows(basis, perm, batch_size)
    if loss in basis.terms:
        own = basis.terms[loss].of_order(perm, batch_size)
        values = [own.values(keys[number], sums, number, t, kept) for number, t in enumerate(temperatures)]
    else:
        values = [loss_values(loss, keys[number], sums, number, t, kept) for number, t in enumerate(temperatures)]
    batch_of_row = inverse(perm) // batch_size
    return MeasuredOrder(
        values,
        measure_order(basis.graph, perm, batch_size),
        basis.sums.suspects.in_batches(batch_of_row),
        basis.to_hold_apart.inside(batch_of_row),
    )
