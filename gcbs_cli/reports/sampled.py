"""A gap report on some of the rows, with intervals: for N where all N² pairs are out of reach.

Whole batches of the plan are drawn. Their rows see their own batch, and all N columns, which are read in one pass,
block by block; the rows of random batches are drawn from all rows. So memory grows with the rows drawn and not with N.
Rows of a batch depend on each other: the interval comes from the means of the batches, and that of a ratio from its
residuals (Cochran, Sampling Techniques, 1977, chapters 6 and 9).
"""

import warnings
from collections.abc import Callable, Iterable
from math import sqrt
from statistics import fmean

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.planning.memory import MemoryForecast, check_memory, fixed_bytes
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sums import loss_sums
from gcbs_cli.products.suspects import Suspicion
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.reports.in_batch import batch_sums, log_sum_exp, of_orders, random_orders
from gcbs_cli.reports.losses import share
from gcbs_cli.reports.schema import Estimate, SampledGap, SampledLoss, SampledReport
from gcbs_cli.settings.report import LEAST_BATCHES, Loss, ReportSettings
from gcbs_cli.system.arrays import Float32s, Floats, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress, Stopwatch
from gcbs_cli.system.randomness import Stream

LOGGED_ROWS = 2000
"""Rows whose loss over all keys is computed for a log."""
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
    full = stream.rows // size
    draws = Stream.REPORT_BATCHES.generator(settings.seed)
    batches = np.sort(draws.choice(full, min(full, rows // size), replace=False))
    planned = perm[: full * size].reshape(full, size)[batches]
    random = draws.integers(stream.rows, size=(len(batches), size - 1))
    with clock.step("rows drawn"):
        drawn, places = np.unique_inverse(np.hstack([planned, random]))
        # (2, B, 2k − 1, d): the rows of a batch of the plan, and what these see beside themselves in a random one.
        sides = stream.read_rows(drawn)[:, places]
    queries = sides[:, :, :size]
    with clock.step("all columns"):
        totals = _log_sums(
            stream.blocks(),
            queries.reshape(2, -1, stream.dim),
            loss,
            temperature,
            backend,
            lambda done: clock.watcher.progress(done, stream.rows),
        )
    with clock.step("batches"):
        positive = np.vecdot(*queries)
        themselves = planned[..., None] == random[:, None]
        in_plan, in_random = [], []
        for side in loss.sides:
            values = queries[side] @ sides[1 - side].mT
            values[..., size:][themselves] = -np.inf
            in_plan.append(log_sum_exp(values[..., :size], temperature))
            values[..., size - 1] = positive
            in_random.append(log_sum_exp(values[..., size - 1 :], temperature))
        whole, plan, other = (
            (np.reshape(sums, (-1, *planned.shape)) - positive / temperature).mean(axis=(0, 2))
            for sums in (totals, in_plan, in_random)
        )
    drawn_share = len(batches) / full
    return SampledReport(
        n=stream.rows,
        dim=stream.dim,
        batch_size=size,
        temperature=temperature,
        loss_kind=loss.name,
        rows=planned.size,
        batches=len(batches),
        loss=SampledLoss(
            global_=_estimate(whole, drawn_share), plan=_estimate(plan, drawn_share), random_mean=_estimate(other)
        ),
        gap=SampledGap(
            plan=_estimate(whole - plan, drawn_share),
            random_mean=_estimate(whole - other),
            reduction=_reduction(whole - plan, whole - other),
        ),
        timings=clock.seconds,
    )


def plan_log(pairs: PairedRows, perm: Ints, settings: ReportSettings, groups: Ints | None = None) -> dict[str, float]:
    """What a plan is worth, for the log of a training, which no figure may end: what fails here is only warned of.

    The learnable share, L_train and suspects, and the same with _random, from the products inside the batches of the
    plan and of `trials` random orders; L_global and gap, from some rows and all their keys, and the half width of their
    interval; reduction, where random batches leave a gap.

    perm: (N,); groups: (N,) ids, rows with the same one are suspected too; of the settings, the first loss (infonce or
    symmetric), batch size and temperature count.
    """
    try:
        return _log_figures(pairs, perm, settings, groups)
    except Exception as error:
        warnings.warn(f"no figures of this plan: {error}", stacklevel=2)
        return {}


def _log_figures(pairs: PairedRows, perm: Ints, settings: ReportSettings, groups: Ints | None) -> dict[str, float]:
    size, temperature, loss = settings.batch_sizes[0], settings.temperatures[0], settings.losses[0]
    backend = choose_backend(settings.device, settings.chunk_rows)
    threshold = find_threshold(pairs.grid, settings, settings.seed, backend).similarity
    diagonal = pairs.diagonal()
    suspicion = Suspicion.of(diagonal, threshold, settings.fn_margin, groups)
    counted = pairs.rows - pairs.rows % size * settings.drop_last

    def in_batches(order: Ints) -> tuple[Floats, dict[str, float]]:
        """(N,) the log sum of each row; and figures of the order."""
        sums = batch_sums(pairs, order, size, [temperature], loss, suspicion)
        log_sums, rows = sums.log_sums[0, 0].mean(axis=0), order[:counted]
        mean = float((log_sums - diagonal / temperature)[rows].mean())
        return log_sums, {
            "learnable": float(sums.learnable[0][:, rows].mean()),
            "L_train": mean,
            "suspects": float(sums.suspects[rows].sum() / 2),
        }

    orders = [perm, *random_orders(pairs.rows, settings.seed, settings.trials)]
    (log_sums, figures), *others = of_orders(orders, in_batches)
    random = {f"{name}_random": fmean(other[name] for _, other in others) for name in figures}
    rows = Stream.REPORT_BATCHES.generator(settings.seed).permutation(perm[:counted])[:LOGGED_ROWS]
    queries = np.stack([pairs.x[rows], pairs.y[rows]])
    totals = _log_sums([(0, pairs.x, pairs.y)], queries, loss, temperature, backend).mean(axis=0)
    gap = _estimate(np.maximum(totals - log_sums[rows], 0.0), len(rows) / counted)
    whole = figures["L_train"] + gap.value
    figures |= random | {"L_global": whole, "gap": gap.value, "interval": gap.high - gap.value}
    closed = figures["L_train"] - random["L_train_random"]
    reduction = share(closed, closed + gap.value, temperature)
    return figures if reduction is None else figures | {"reduction": reduction}


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


def _log_sums(
    blocks: Iterable[tuple[int, Float32s, Float32s]],
    queries: Float32s,
    loss: Loss,
    temperature: float,
    backend: Backend,
    progress: Callable[[int], object] = int,
) -> Floats:
    """(S, n) log Σ_j exp(s_ij / temperature) over the keys of all blocks for queries (2, n, d), by direction.

    progress: hears of the keys that are done.
    """
    sums = np.full((len(loss.sides), queries.shape[1]), -np.inf)
    for start, *keys in blocks:
        for side in loss.sides:
            part, _ = loss_sums(queries[side], np.ascontiguousarray(keys[1 - side]), [temperature], backend)
            np.logaddexp(sums[side], part[0], out=sums[side])
        progress(start + len(keys[0]))
    return sums


def _reduction(planned: Floats, random: Floats) -> Estimate | None:
    """1 − plan / random; None where random batches leave no gap."""
    whole = float(random.mean())
    if whole <= 0.0:
        return None
    ratio = float(planned.mean()) / whole
    return _estimate(1.0 - ratio + (planned - ratio * random) / whole)  # residuals, whose mean is 0


def _estimate(means: Floats, drawn: float = 0.0) -> Estimate:
    """The mean over batches with its 95 % interval; drawn: the share of all that these are, 0 with replacement."""
    from scipy.special import stdtrit

    value, count = float(means.mean()), len(means)
    error = sqrt((1.0 - drawn) * float(means.var(ddof=1)) / count)
    half = float(stdtrit(count - 1, 0.975)) * error
    return Estimate(value=value, low=value - half, high=value + half)
