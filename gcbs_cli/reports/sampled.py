"""A gap report on some of the rows, with intervals: for N where all N² pairs are out of reach.

Whole batches of the plan are drawn. Their rows see their own batch, and all N columns, which are read in one pass,
block by block; the rows of random batches are drawn from all rows. So memory grows with the rows drawn and not with N.
Rows of a batch depend on each other: the interval comes from the means of the batches, and that of a ratio from its
residuals (Cochran, Sampling Techniques, 1977, chapters 6 and 9).
"""

from math import sqrt

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.planning.memory import MemoryForecast, check_memory, fixed_bytes
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sums import loss_sums
from gcbs_cli.reports.in_batch import batch_sums, log_sum_exp
from gcbs_cli.reports.schema import Estimate, SampledGap, SampledLoss, SampledReport
from gcbs_cli.settings.report import LEAST_BATCHES, Loss, ReportSettings
from gcbs_cli.system.arrays import Float32s, Floats, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress, Stopwatch
from gcbs_cli.system.randomness import Stream

BYTES_PER_ROW = 24
"""For each row of the plan: its place in the order, read and checked (measured)."""
BYTES_PER_BATCH_ENTRY = 24
"""For each similarity inside a batch, in both directions (measured)."""
COPIES_OF_BLOCK = 18
"""Copies of a block of both sides: as it was read, as unit rows, the one before, and what allocators keep."""


def sampled_report(
    stream: PairStream, perm: Ints, rows: int, settings: ReportSettings, progress: Progress | None = None
) -> SampledReport:
    """Losses, gaps and the gap reduction of the full batches of `perm` (N,), each with a 95 % interval.

    rows: about how many to draw; of the settings, the first loss (infonce or symmetric), batch size and temperature
    count. Reads the embeddings twice. Raises BadInput where so many rows are too few, or not needed.
    """
    size, temperature, loss = settings.batch_sizes[0], settings.temperatures[0], settings.losses[0]
    backend = choose_backend(settings.device)
    _check_size(stream, rows, settings, backend)
    clock = Stopwatch(progress)
    with clock.step("rows drawn"):
        sides, own, others = _draw(stream, perm, rows, size, settings.seed)
        pairs = PairedRows(*(side[own.ravel()] for side in sides))
        # The error of a mean over batches falls with the share that was not drawn.
        left = sqrt(1.0 - len(own) / (stream.rows // size))
    with clock.step("all columns"):
        log_sums = _log_sums(stream, pairs, loss, temperature, backend, clock.watcher)
    with clock.step("batches"):
        positive = pairs.diagonal() / temperature
        total = np.maximum(log_sums, positive)
        plan_sums = batch_sums(pairs, np.arange(pairs.rows), size, [temperature], loss).log_sums[0, 0]
        random_sums = _random_sums(sides, own, others, loss, temperature)
        whole, plan, random = (
            (np.clip(sums, positive, total) - positive).mean(axis=0).reshape(-1, size).mean(axis=1)
            for sums in (total, plan_sums, random_sums)
        )
    return SampledReport(
        n=stream.rows,
        dim=stream.dim,
        batch_size=size,
        temperature=temperature,
        loss_kind=loss.name,
        rows=pairs.rows,
        batches=len(own),
        loss=SampledLoss(
            global_=_estimate(whole, left),
            plan=_estimate(plan, left),
            random_mean=_estimate(random),
        ),
        gap=SampledGap(
            plan=_estimate(whole - plan, left),
            random_mean=_estimate(whole - random),
            reduction=_reduction(whole - plan, whole - random),
        ),
        timings=clock.seconds,
    )


def _check_size(stream: PairStream, rows: int, settings: ReportSettings, backend: Backend) -> None:
    """Raises BadInput where a sample of so many rows says little, or does not fit in memory."""
    size = settings.batch_sizes[0]
    least = LEAST_BATCHES * size
    if min(rows, stream.rows) < least:
        raise BadInput(
            f"--rows {rows:,} of {stream.rows:,}: expected at least {least:,}, for {LEAST_BATCHES} batches of {size}; "
            "leave it out to report on all"
        )
    memory = fixed_bytes(2 * min(rows, stream.rows), stream.dim, backend) + COPIES_OF_BLOCK * stream.block_bytes
    memory += BYTES_PER_ROW * stream.rows + BYTES_PER_BATCH_ENTRY * size**2
    check_memory(MemoryForecast(stream.rows, memory), settings, "the report", "use fewer --rows")


def _draw(stream: PairStream, perm: Ints, rows: int, size: int, seed: int) -> tuple[Float32s, Ints, Ints]:
    """Draw B batches of the plan, and a random batch for each.

    (2, R, d) the rows that were drawn; (B, k) and (B, k − 1) places in them, of the rows of a batch of the plan and of
    what these see in a random batch.
    """
    full = stream.rows // size
    draws = Stream.REPORT_BATCHES.generator(seed)
    batches = np.sort(draws.choice(full, min(full, rows // size), replace=False))
    random = draws.integers(stream.rows, size=(len(batches), size - 1))
    planned = perm[: full * size].reshape(full, size)[batches]
    drawn, places = np.unique_inverse(np.hstack([planned, random]))
    return stream.read_rows(drawn), places[:, :size], places[:, size:]


def _random_sums(sides: Float32s, own: Ints, others: Ints, loss: Loss, temperature: float) -> Floats:
    """(S, n) log Σ exp(s / temperature) over the keys of random batches."""
    sums = np.empty((len(loss.sides), *own.shape))
    for batch, (queries, keys) in enumerate(zip(own, others, strict=True)):
        for side in loss.sides:
            rows = sides[side][queries]
            values = rows @ sides[1 - side][keys].T
            values[queries[:, None] == keys] = -np.inf
            positives = np.vecdot(rows, sides[1 - side][queries])
            sums[side, batch] = log_sum_exp(np.column_stack([positives, values]), temperature)
    return sums.reshape(len(sums), -1)


def _log_sums(
    stream: PairStream, pairs: PairedRows, loss: Loss, temperature: float, backend: Backend, progress: Progress
) -> Floats:
    """(S, n) log Σ_j exp(s_ij / temperature) over all N columns for the rows of a pair, by direction."""
    sums = np.full((len(loss.sides), pairs.rows), -np.inf)
    for start, x, y in stream.blocks():
        for side in loss.sides:
            keys = np.ascontiguousarray((y, x)[side])
            part, _ = loss_sums((pairs.x, pairs.y)[side], keys, [temperature], backend)
            np.logaddexp(sums[side], part[0], out=sums[side])
        progress.progress((start + len(x)) * pairs.rows, stream.rows * pairs.rows)
    return sums


def _reduction(planned: Floats, random: Floats) -> Estimate | None:
    """1 − plan / random; None where random batches leave no gap."""
    whole = float(random.mean())
    if whole <= 0.0:
        return None
    ratio = float(planned.mean()) / whole
    return _estimate(1.0 - ratio + (planned - ratio * random) / whole)  # residuals, whose mean is 0


def _estimate(means: Floats, share: float = 1.0) -> Estimate:
    """The mean over batches with its 95 % interval; `share`: of the half width for draws with replacement."""
    from scipy.special import stdtrit

    value, count = float(means.mean()), len(means)
    half = share * float(stdtrit(count - 1, 0.975)) * sqrt(float(means.var(ddof=1)) / count)
    return Estimate(value=value, low=value - half, high=value + half)
