"""What `gcbs report --rows --json` writes: estimates with their 95 % intervals."""

from typing import Literal

from gcbs_cli.reports.schema import ReportPart


class Estimate(ReportPart):
    """A figure from a sample, and the interval that covers the figure of all rows in 95 of 100 samples."""

    value: float
    low: float
    high: float


class SampledLoss(ReportPart):
    """L_global, L_train of the plan's full batches, and of random batches; nats."""

    global_: Estimate
    plan: Estimate
    random: Estimate


class SampledGap(ReportPart):
    """L_global − L_train; `reduction`: 1 − plan / random, null where that is 0 / 0."""

    plan: Estimate
    random: Estimate
    reduction: Estimate | None


class SampledReport(ReportPart):
    """A report on `rows` rows of `batches` whole batches, of the n rows of the data."""

    n: int
    dim: int
    batch_size: int
    temperature: float
    loss_kind: str
    sampled: Literal[True] = True
    rows: int
    batches: int
    confidence: float = 0.95
    loss: SampledLoss
    gap: SampledGap
    timings: dict[str, float]
