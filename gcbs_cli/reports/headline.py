"""What a report says in a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gcbs_cli.reports.schema import GapReport, SampledGap, SampledReport

MANY_SUSPECTS_SHARE = 0.1
MANY_SUSPECTS_TIMES_RANDOM = 5
"""Suspected false negatives are many when they touch a tenth of the rows, five times as often as by chance."""
LEAST_MASKED_SHARE = 0.5
"""Share of the plain reduction under which the masked one says that suspects made it."""
LEAST_GAP = 1e-9
"""A smaller gap is rounding."""
SPREADS_OF_NOISE = 3
"""Standard deviations of random orders within which a plan is no better than they."""


@dataclass(frozen=True)
class _GapFigures:
    """The gap of the plan and of random orders, and the reductions; of a sample the estimates.

    noise: how much of the difference is none; half_width: of the interval of the reduction.
    """

    plan: float | None
    random: float
    oracle: float | None = None
    reduction: float | None = None
    masked: float | None = None
    noise: float | None = None
    half_width: float | None = None

    @property
    def most(self) -> str:
        """The share that any order can close, or nothing where that is not known."""
        known = self.oracle is not None and self.random >= LEAST_GAP
        return f"{1.0 - (self.oracle or 0.0) / self.random:z.0%}" if known else ""

    @property
    def is_noise(self) -> bool:
        """Whether the plan is within the spread of random orders."""
        return self.plan is not None and self.noise is not None and abs(self.plan - self.random) <= self.noise

    @classmethod
    def of(cls, report: GapReport | SampledReport) -> "_GapFigures":
        """Those of a report."""
        gap = report.gap
        if isinstance(gap, SampledGap):
            figures = cls(gap.plan.value, gap.random_mean.value)
            if gap.reduction is None:
                return figures
            value = gap.reduction.value
            return replace(figures, reduction=value, half_width=value - gap.reduction.low)
        noise = None if gap.random_std is None else SPREADS_OF_NOISE * gap.random_std
        return cls(gap.plan, gap.random_mean, gap.oracle, gap.reduction, gap.masked.reduction, noise)


def headline(report: GapReport | SampledReport) -> str:
    """Say in a sentence what the plan is worth, first without suspected false negatives."""
    gap = _GapFigures.of(report)
    if gap.plan is None:
        possible = f", of which no order can close more than {gap.most}" if gap.most else ""
        return f"Random batches of {report.batch_size} leave a gap of {gap.random:.3f} {report.unit}{possible}."
    if gap.reduction is None:
        return f"One batch of {report.batch_size} holds all rows, so there is no gap to close."
    if gap.is_noise:
        return "This plan does no better than random batches: the difference is within their spread."
    verb = "closes" if gap.reduction > 0 else "WIDENS the gap by"
    masked = "" if gap.masked is None else f", or {gap.masked:.1%} without suspected false negatives"
    share = f"{abs(gap.reduction):.1%} of the gap that random batches of {report.batch_size} leave"
    return f"This plan {verb} {share}{masked}."


def summary(report: GapReport | SampledReport) -> list[tuple[str, str]]:
    """What a report says in a few lines, each with its name."""
    gap = _GapFigures.of(report)
    if gap.plan is None:
        lines = [("gap", f"{gap.random:.3f} {report.unit} in random batches")]
        if gap.most:
            lines.append(("oracle", f"no order can close more than {gap.most} of it"))
        return lines
    if gap.reduction is None:
        return [("verdict", "one batch holds all rows, so there is no gap to close")]
    masked = "" if gap.masked is None else f"; {gap.masked:.1%} without suspects"
    unit = f" {report.unit}" if report.unit == "nats" else ""
    around = "" if gap.half_width is None else f" ± {gap.half_width:.1%}"
    change = f"{gap.random:.3f} → {gap.plan:.3f}{unit}"
    lines = [("closes", f"{gap.reduction:.1%}{around} of random's gap ({change}){masked}")]
    if isinstance(report, GapReport):
        lines += _details(report, gap.most)
    return [*lines, ("verdict", _verdict(gap, gap.reduction))]


def _details(report: GapReport, most: str) -> list[tuple[str, str]]:
    """The lines on the oracle, the suspects and the hard pairs, where there is something to say."""
    lines = []
    share, suspects, inside = report.gap.closed_share, report.false_negatives, report.in_batch_edge_share
    if share is not None and most:
        lines.append(("oracle", f"{share:.1%} of the most that any order can close ({most} of the gap)"))
    if suspects.suspected_pairs is not None and suspects.rows is not None:
        touched = f"touching {suspects.rows / report.n:.0%} of the rows (random {suspects.random:,.0f})"
        lines.append(("suspects", f"{suspects.suspected_pairs:,.0f} pairs share a batch, {touched}"))
    if inside.plan is not None:
        without, count = report.graph.isolated_batches, -(-report.n // report.batch_size)
        empty = f"; {without:,.0f} of {count:,} batches have none" if without else ""
        lines.append(("hard pairs", f"{inside.plan:.1%} share a batch (random {inside.random:.1%}){empty}"))
    return lines


def _verdict(gap: _GapFigures, reduction: float) -> str:
    """Whether it may pay to train on the plan, as far as the gap can tell."""
    if gap.is_noise:
        return "no better than random batches: the difference is within their spread"
    if reduction < 0:
        return "easier than random: made for other data, or to keep hard pairs apart"
    if gap.masked is not None and gap.masked <= 0:
        return "do not train on it: all of its gain comes from suspected false negatives"
    if gap.masked is not None and gap.masked < LEAST_MASKED_SHARE * reduction:
        return "much of its gain comes from suspected false negatives"
    return "harder than random; only training tells whether it is better"


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
        if false.suspected_pairs is None or false.rows is None:
            continue
        touched = false.rows / report.n
        if touched > MANY_SUSPECTS_SHARE and false.suspected_pairs > MANY_SUSPECTS_TIMES_RANDOM * false.random:
            return (
                f"{false.suspected_pairs:,} suspected false negatives share a batch, touching {touched:.0%} of the rows"
                f" ({false.random:,.0f} pairs in random batches): the model may be taught to push right answers away"
            )
    return None
