"""What a report says in a sentence."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gcbs_cli.reports.schema import GapReport


def headline(report: "GapReport") -> str:
    """How much of the gap the plan closes, in a sentence."""
    gap = report.gap
    if gap.plan is None:
        possible = (
            "" if gap.random_mean < 1e-9 else f", of which no order can close more than {_oracle_share(report):.0%}"
        )
        return f"Random batches of {report.batch_size} leave a gap of {gap.random_mean:.3f} {report.unit}{possible}."
    if gap.reduction is None:
        return f"One batch of {report.batch_size} holds all rows: there is no gap to close."
    if abs(gap.plan - gap.random_mean) <= 3 * gap.random_std:
        return "This plan does no better than random batches: the difference is within their spread."
    verb = "closes" if gap.reduction > 0 else "WIDENS the gap by"
    change = f"{gap.random_mean:.3f} → {gap.plan:.3f} {report.unit}"
    return (
        f"This plan {verb} {abs(gap.reduction):.1%} of the gap that random batches of {report.batch_size} leave "
        f"({change}); no order can close more than {_oracle_share(report):.0%}."
    )


def lead(report: "GapReport") -> str:
    """What the gap is and what a plan does about it, for a reader who has not heard of either."""
    loss, unit = report.loss, report.unit
    meaning = (
        f"In a batch of {report.batch_size:,} each row is compared with the other rows of the batch alone, and most of "
        f"them are easy; among all {report.n:,} rows there are harder ones. The gap is the part of the loss that "
        "training on batches therefore does not see. A plan puts similar rows into one batch, so that it sees more"
    )
    seen = f"of {loss.global_:.3f} {unit}, random batches show {loss.random_mean:.3f}"
    return f"{meaning}: {seen}." if loss.plan is None else f"{meaning}: {seen}, this plan's {loss.plan:.3f}."


def _oracle_share(report: "GapReport") -> float:
    return 1.0 - report.gap.oracle / report.gap.random_mean
