"""The plan and the random trials at one loss and batch size, with the plan checked in float64."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.reports.basis import Basis, all_keys
from gcbs_cli.reports.cross_check import entries_above_in_double, row_gaps_in_double, sampled_rows
from gcbs_cli.reports.losses import AllKeys, Loss, row_gaps, tolerance
from gcbs_cli.reports.orders import MeasuredOrder, counted_rows, order_figures, random_trials, sums_of
from gcbs_cli.reports.schema import CrossCheck, GapReport
from gcbs_cli.system.errors import GcbsError


@dataclass(frozen=True)
class Measured:
    """One loss and batch size: all keys by temperature, the random trials, and the plan if there is one."""

    loss: Loss
    batch_size: int
    keys: list[AllKeys]
    random: list[MeasuredOrder]
    plan: MeasuredOrder | None
    checks: list[CrossCheck] | None
    one_graph: MeasuredOrder | None = None
    perm: NDArray[np.int64] | None = None


def measure(basis: Basis, perm: NDArray[np.int64] | None, loss: Loss, batch_size: int) -> Measured:
    """Random batches and planned ones; `perm` None: random ones alone."""
    keys = all_keys(basis, loss)
    with basis.clock.step("random batches"):
        random = random_trials(basis, keys, loss, batch_size)
    plan, checks = None, None
    if perm is not None:
        with basis.clock.step("planned batches"):
            plan = order_figures(basis, keys, loss, batch_size, perm)
        with basis.clock.step("cross-check"):
            checks = None if loss.has_own_terms else _cross_checks(basis, perm, keys, loss, batch_size)
    one_graph = None if basis.one_graph is None else order_figures(basis, keys, loss, batch_size, basis.one_graph)
    return Measured(loss, batch_size, keys, random, plan, checks, one_graph, perm)


def _cross_checks(
    basis: Basis, perm: NDArray[np.int64], keys: list[AllKeys], loss: Loss, batch_size: int
) -> list[CrossCheck]:
    """For each temperature, the plan's gap on some rows, or on all, against float64."""
    settings = basis.settings
    kept = counted_rows(basis, perm, batch_size)
    rows = kept if settings.verify else sampled_rows(kept, settings.seed)
    exact = row_gaps_in_double(basis.pair, perm, batch_size, loss, settings.temperatures, rows).gaps.mean(axis=1)
    sums = sums_of(basis, loss, batch_size, perm)
    found = [row_gaps(loss, keys[n], sums, n, t, rows).mean() for n, t in enumerate(settings.temperatures)]
    return [
        CrossCheck(
            rows=len(rows),
            gap=float(exact[n]),
            difference=abs(float(found[n] - exact[n])),
            tolerance=tolerance(basis.product_error, temperature),
        )
        for n, temperature in enumerate(settings.temperatures)
    ]


def refuse_differences(basis: Basis, reports: list[GapReport]) -> None:
    """Raise GcbsError where the float64 computation of the whole does not confirm the report."""
    certain, unsure = entries_above_in_double(basis.pair, basis.threshold.value)
    found = len(basis.sums.exceedances.above().rows)
    if not certain <= found <= certain + unsure:
        raise GcbsError(
            f"--verify: {found:,} entries above the threshold, but in float64 {certain:,} to {certain + unsure:,}; "
            "do not use this report, and tell the authors of gcbs"
        )
    for report in reports:
        check = report.cross_check
        if check is not None and not check.difference <= check.tolerance:
            raise GcbsError(
                f"--verify: the gap ({report.loss_kind}, batch size {report.batch_size}, temperature "
                f"{report.temperature:g}) differs from float64's {check.gap:.6f} by {check.difference:.2g} nats, more "
                f"than rounding explains ({check.tolerance:.2g}); do not use this report, and tell the authors of gcbs"
            )
