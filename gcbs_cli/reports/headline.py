"""What a report says in a sentence."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gcbs_cli.reports.schema import GapReport, SampledReport


MANY_SUSPECTS_SHARE = 0.1
MANY_SUSPECTS_TIMES_RANDOM = 5
"""Suspected false negatives are many when they touch a tenth of the rows, five times as often as by chance."""


def headline(report: "GapReport | SampledReport") -> str:
    """Say in a sentence how much of the gap the plan closes."""
    plan, random, spread, reduction, oracle = (
        getattr(value, "value", value)
        for value in (report.at(f"gap.{name}") for name in ("plan", "random_mean", "random_std", "reduction", "oracle"))
    )
    limit = "" if oracle is None or random < 1e-9 else f"no order can close more than {1.0 - oracle / random:.0%}"
    if plan is None:
        possible = f", of which {limit}" if limit else ""
        return f"Random batches of {report.batch_size} leave a gap of {random:.3f} {report.unit}{possible}."
    if reduction is None:
        return f"One batch of {report.batch_size} holds all rows, so there is no gap to close."
    if spread is not None and abs(plan - random) <= 3 * spread:
        return "This plan does no better than random batches: the difference is within their spread."
    verb = "closes" if reduction > 0 else "WIDENS the gap by"
    return (
        f"This plan {verb} {abs(reduction):.1%} of the gap that random batches of {report.batch_size} leave "
        f"({random:.3f} → {plan:.3f} {report.unit})" + (f"; {limit}." if limit else ".")
    )


def lead(report: "GapReport") -> str:
    """Explain the gap, and what a plan does about it, to a reader who has heard of neither."""
    loss, unit = report.loss, report.unit
    meaning = (
        f"In a batch of {report.batch_size:,}, each row is compared only with the other rows of the batch, and most of "
        f"those are easy; among all {report.n:,} rows there are harder ones. The gap is the part of the loss that "
        "training on batches therefore does not see. A plan puts similar rows into the same batch, so that training "
        "sees more"
    )
    seen = f"of {loss.global_:.3f} {unit}, random batches show {loss.random_mean:.3f}"
    return f"{meaning}: {seen}." if loss.plan is None else f"{meaning}: {seen} and this plan {loss.plan:.3f}."


def suspects_warning(reports: Sequence["GapReport"]) -> str | None:
    """The warning, for the first report that deserves it."""
    for report in reports:
        false = report.false_negatives
        if false.suspected_pairs is None or false.rows is None:
            continue
        touched = false.rows / report.n
        if touched > MANY_SUSPECTS_SHARE and false.suspected_pairs > MANY_SUSPECTS_TIMES_RANDOM * false.random:
            return (
                f"{false.suspected_pairs:,} suspected false negatives share a batch, on {touched:.0%} of the rows "
                f"({false.random:,.0f} pairs in random batches): negatives that the model is taught to push apart "
                "may be right answers"
            )
    return None
