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


def _oracle_share(report: "GapReport") -> float:
    return 1.0 - report.gap.oracle / report.gap.random_mean
