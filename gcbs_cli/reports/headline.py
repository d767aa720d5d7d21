"""What a report says in a sentence."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gcbs_cli.reports.schema import GapReport, SampledReport


def headline(report: "GapReport | SampledReport") -> str:
    """How much of the gap the plan closes, in a sentence."""
    plan, random, spread, reduction, oracle = (
        getattr(value, "value", value)
        for value in (report.at(f"gap.{name}") for name in ("plan", "random_mean", "random_std", "reduction", "oracle"))
    )
    limit = "" if oracle is None or random < 1e-9 else f"no order can close more than {1.0 - oracle / random:.0%}"
    if plan is None:
        possible = f", of which {limit}" if limit else ""
        return f"Random batches of {report.batch_size} leave a gap of {random:.3f} {report.unit}{possible}."
    if reduction is None:
        return f"One batch of {report.batch_size} holds all rows: there is no gap to close."
    if spread is not None and abs(plan - random) <= 3 * spread:
        return "This plan does no better than random batches: the difference is within their spread."
    verb = "closes" if reduction > 0 else "WIDENS the gap by"
    return (
        f"This plan {verb} {abs(reduction):.1%} of the gap that random batches of {report.batch_size} leave "
        f"({random:.3f} → {plan:.3f} {report.unit})" + (f"; {limit}." if limit else ".")
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
