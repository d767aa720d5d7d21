"""What a report says in a sentence."""

from collections.abc import Sequence
from typing import Any

from gcbs_cli.reports.schema import GapReport

MANY_SUSPECTS_SHARE = 0.1
MANY_SUSPECTS_TIMES_RANDOM = 5
"""Suspected false negatives are many when they touch a tenth of the rows, five times as often as by chance."""
LEAST_MASKED_SHARE = 0.5
"""Of the plain reduction, under which the masked one says that suspects made it."""
LEAST_GAP = 1e-9


def headline(report: GapReport) -> str:
    """Say in a sentence what the plan is worth, first without suspected false negatives."""
    plan, random, most, reduction, masked = _gap(report)
    if plan is None:
        possible = f", of which no order can close more than {most}" if most else ""
        return f"Random batches of {report.batch_size} leave a gap of {random:.3f} {report.unit}{possible}."
    if reduction is None:
        return f"One batch of {report.batch_size} holds all rows, so there is no gap to close."
    if _is_noise(report):
        return "This plan does no better than random batches: the difference is within their spread."
    verb = "closes" if reduction > 0 else "WIDENS the gap by"
    beside = "" if masked is None else f", or {masked:.1%} without suspected false negatives"
    return f"This plan {verb} {abs(reduction):.1%} of the gap that random batches of {report.batch_size} leave{beside}."


def summary(report: GapReport) -> list[tuple[str, str]]:
    """What a report says in a few lines, each with its name."""
    plan, random, most, reduction, masked = _gap(report)
    if plan is None:
        lines = [("gap", f"{random:.3f} {report.unit} in random batches")]
        return [*lines, ("oracle", f"no order can close more than {most} of it")] if most else lines
    if reduction is None:
        return [("verdict", "one batch holds all rows, so there is no gap to close")]
    beside = "" if masked is None else f"; {masked:.1%} without suspects"
    unit = f" {report.unit}" if report.unit == "nats" else ""
    low = getattr(report.gap.reduction, "low", None)
    around = "" if low is None else f" ± {reduction - low:.1%}"
    lines = [("closes", f"{reduction:.1%}{around} of random's gap ({random:.3f} → {plan:.3f}{unit}){beside}")]
    share, suspects, inside = report.gap.closed_share, report.false_negatives, report.in_batch_edge_share
    if share is not None and most:
        lines.append(("oracle", f"{share:.1%} of the most that any order can close ({most} of the gap)"))
    if suspects.suspected_pairs is not None:
        touched = f"touching {suspects.rows / report.n:.0%} of the rows (random {suspects.random:,.0f})"
        lines.append(("suspects", f"{suspects.suspected_pairs:,.0f} pairs share a batch, {touched}"))
    if inside.plan is not None:
        without, count = report.graph.isolated_batches, -(-report.n // report.batch_size)
        beside = f"; {without:,.0f} of {count:,} batches have none" if without else ""
        lines.append(("hard pairs", f"{inside.plan:.1%} share a batch (random {inside.random:.1%}){beside}"))
    return [*lines, ("verdict", verdict(report))]


def verdict(report: GapReport) -> str:
    """Whether it may pay to train on the plan, as far as the gap can tell."""
    *_, reduction, masked = _gap(report)
    if _is_noise(report):
        return "no better than random batches: the difference is within their spread"
    if reduction < 0:
        return "easier than random: made for other data, or to keep hard pairs apart"
    if masked is not None and masked <= 0:
        return "do not train on it: all of its gain comes from suspected false negatives"
    if masked is not None and masked < LEAST_MASKED_SHARE * reduction:
        return "much of its gain comes from suspected false negatives"
    return "harder than random; only training tells whether it is better"


def _gap(report: GapReport) -> tuple[Any, Any, str, Any, Any]:
    """The plan's and the random orders', the most of it that an order can close, and the two reductions.

    Estimates by their middle.
    """
    gap = report.gap
    figures = gap.plan, gap.random_mean, gap.oracle, gap.reduction, gap.masked.reduction
    plan, random, oracle, reduction, masked = (getattr(value, "value", value) for value in figures)
    most = "" if oracle is None or random < LEAST_GAP else f"{1.0 - oracle / random:z.0%}"
    return plan, random, most, reduction, masked


def _is_noise(report: GapReport) -> bool:
    gap = report.gap
    return gap.random_std is not None and bool(abs(gap.plan - gap.random_mean) <= 3 * gap.random_std)


def lead(report: GapReport) -> str:
    """Explain the gap, and what a plan does about it, to a reader who has heard of neither."""
    loss, unit = report.loss, report.unit
    meaning = (
        f"In a batch of {report.batch_size:,}, each row is compared only with the other rows of the batch, and most of "
        f"those are easy; among all {report.n:,} rows there are harder ones. The gap is the part of the loss that "
        "training on batches therefore does not see. A plan puts similar rows into the same batch, so that training "
        "sees more"
    )
    seen = f"of {loss.global_:.3f} {unit}, random batches expose {loss.random_mean:.3f}"
    return f"{meaning}: {seen}." if loss.plan is None else f"{meaning}: {seen}; this plan exposes {loss.plan:.3f}."


def suspects_warning(reports: Sequence[GapReport]) -> str | None:
    """The warning, for the first report that deserves it."""
    for report in reports:
        false = report.false_negatives
        if false.suspected_pairs is None:
            continue
        touched = false.rows / report.n
        if touched > MANY_SUSPECTS_SHARE and false.suspected_pairs > MANY_SUSPECTS_TIMES_RANDOM * false.random:
            return (
                f"{false.suspected_pairs:,} suspected false negatives share a batch, touching {touched:.0%} of the rows"
                f" ({false.random:,.0f} pairs in random batches): the model may be taught to push right answers away"
            )
    return None
