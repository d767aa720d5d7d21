"""What a report says in a sentence."""

from collections.abc import Sequence
from typing import Any

from gcbs_cli.reports.schema import SHARE, Figure, GapReport, SampledReport

MANY_SUSPECTS_SHARE = 0.1
MANY_SUSPECTS_TIMES_RANDOM = 5
"""Suspected false negatives are many when they touch a tenth of the rows, five times as often as by chance."""
LEAST_MASKED_SHARE = 0.5
"""Share of the plain reduction under which the masked one says that suspects made it."""
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


def _is_noise(report: GapReport | SampledReport) -> bool:
    """Whether the plan is within the spread of random orders."""
    plan, random, *_ = _gap(report)
    spread = report.at("gap.random_std")
    return None not in (plan, spread) and abs(plan - random) <= SPREADS_OF_NOISE * spread


def _verdict(report: GapReport | SampledReport) -> str:
    """Whether it may pay to train on the plan, as far as the gap can tell."""
    _, _, reduction, masked, _ = _gap(report)
    if reduction is None:
        return f"one batch of {report.batch_size} holds all rows, so there is no gap to close"
    if _is_noise(report):
        return "no better than random batches: the difference is within their spread"
    if reduction < 0:
        return "easier than random: made for other data, or to keep hard pairs apart"
    if masked is not None and masked <= 0:
        return "do not train on it: all of its gain comes from suspected false negatives"
    if masked is not None and masked < LEAST_MASKED_SHARE * reduction:
        return "much of its gain comes from suspected false negatives"
    return "harder than random; only training tells whether it is better"


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
