"""What a report says in a sentence."""

from collections.abc import Sequence
from typing import Any

from gcbs_cli.reports.schema import SHARE, Figure, GapReport, SampledReport

MANY_SUSPECTS_SHARE = 0.1
MANY_SUSPECTS_TIMES_RANDOM = 5
"""Suspected false negatives are many when they touch a tenth of the rows, five times as often as by chance."""
LEAST_GAP = 1e-9
"""A smaller gap is rounding."""
SPREADS_OF_NOISE = 3
"""Standard deviations of random orders within which a plan is no better than they."""


def _gap(report: GapReport | SampledReport) -> list[Any]:
    """The gap of the plan, of random orders, the reduction, the masked one, the oracle; of a sample, estimates."""
    values = [report.at(f"gap.{name}") for name in ("plan", "random_mean", "reduction", "masked.reduction", "oracle")]
    return [getattr(value, "value", value) for value in values]


def headline(report: GapReport | SampledReport) -> str:
    """What the plan is worth in a line: the first of the summary, or that it is no better than random batches."""
    lines = summary(report)
    name, text = lines[-1] if _is_noise(report) else lines[0]
    return f"{name.capitalize()}: {text}"


def summary(report: GapReport | SampledReport) -> list[tuple[str, str]]:
    """What a report says in a few lines, each with its name."""
    plan, random, reduction, masked, oracle = _gap(report)
    most = ""
    if oracle is not None and random > LEAST_GAP:
        most = f"{1.0 - oracle / random:z.0%}"
    if plan is None:
        lines = [("gap", f"{random:.3f} {report.unit} in random batches of {report.batch_size}")]
        if most:
            lines.append(("oracle", f"no order can close more than {most} of it"))
        return lines
    verdict = ("verdict", _verdict(report))
    if reduction is None:
        return [verdict]
    share = Figure("gap reduction", SHARE).text(report.gap.reduction)
    without = "" if masked is None else f"; {masked:.1%} without suspects"
    name = "closes" if reduction > 0 else "widens by"
    lines = [(name, f"{share.lstrip('-')} of random's gap ({random:.3f} → {plan:.3f} {report.unit}){without}")]
    if isinstance(report, GapReport):
        learnable = report.learnable_share
        if learnable.plan is not None:
            shares = f"{learnable.plan:.1%} (random {learnable.random_mean:.1%})"
            lines.insert(0, ("learnable", f"{shares}: the weight on negatives to learn from"))
        lines += _details(report, most)
    return [*lines, verdict]


def _details(report: GapReport, most: str) -> list[tuple[str, str]]:
    """The lines on the oracle, the suspects and the hard pairs, where there is something to say."""
    lines = []
    share, suspects, inside = report.gap.closed_share, report.false_negatives, report.in_batch_edge_share
    if share is not None and most:
        lines.append(("oracle", f"{share:.1%} of the most that any order can close ({most} of the gap)"))
    touched = f"touching {(suspects.rows or 0) / report.n:.0%} of the rows (random {suspects.random:,.0f})"
    lines.append(("suspects", f"{suspects.suspected_pairs:,} pairs share a batch, {touched}"))
    if inside.plan is not None:
        lines.append(("hard pairs", f"{inside.plan:.1%} share a batch (random {inside.random:.1%})"))
    return lines


def _difference(report: GapReport | SampledReport) -> tuple[float, float | None]:
    """By how much the plan is better than random orders, in learnable share, else in the gap; and their spread."""
    learnable = report.at("learnable_share.plan")
    if learnable is not None:
        return learnable - report.at("learnable_share.random_mean"), report.at("learnable_share.random_std")
    plan, random, *_ = _gap(report)
    return random - plan, report.at("gap.random_std")


def _is_noise(report: GapReport | SampledReport) -> bool:
    """Whether the plan is within the spread of random orders."""
    if report.at("gap.plan") is None:
        return False
    difference, spread = _difference(report)
    return spread is not None and abs(difference) <= SPREADS_OF_NOISE * spread


def _verdict(report: GapReport | SampledReport) -> str:
    """Whether it may pay to train on the plan."""
    if _gap(report)[2] is None:
        return f"one batch of {report.batch_size} holds all rows, so there is no gap to close"
    if _is_noise(report):
        return "no better than random batches: the difference is within their spread"
    if _difference(report)[0] < 0:
        return "worse than random batches: made for other data, or its negatives are harder than the positives"
    return "better than random by this figure; only training tells for sure"


def suspects_warning(reports: Sequence[GapReport]) -> str | None:
    """The warning, for the first report that deserves it."""
    for report in reports:
        suspects = report.false_negatives
        suspected_pairs, touched = suspects.suspected_pairs or 0, (suspects.rows or 0) / report.n
        if touched > MANY_SUSPECTS_SHARE and suspected_pairs > MANY_SUSPECTS_TIMES_RANDOM * suspects.random:
            return (
                f"{suspected_pairs:,} suspected false negatives share a batch, touching {touched:.0%} of the rows"
                f" ({suspects.random:,.0f} pairs in random batches): the model may be taught to push right answers away"
            )
    return None
