"""A gap report on some of the rows, with intervals: for N where all N² pairs are out of reach.

Whole batches of the plan are drawn. Their rows see their own batch, and all N columns, which are read in one pass,
block by block; the rows of random batches are drawn from all rows. So memory grows with the rows drawn and not with N.
Rows of a batch depend on each other: the interval comes from the means of the batches, and that of a ratio from its
residuals (Cochran, Sampling Techniques, 1977, chapters 6 and 9).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.reading import PairStream
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sums import loss_sums
from gcbs_cli.products.suspects import SuspectPairs
from gcbs_cli.reports.figures import nest
from gcbs_cli.reports.in_batch import batch_sums, log_sum_exp
from gcbs_cli.reports.schema import Estimate, SampledReport
from gcbs_cli.settings.report import LEAST_BATCHES, Loss, ReportSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.progress import Progress, Stopwatch

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class _Drawn:
    """planned, random: (b, k) rows of the drawn batches and of as many random ones; rows, x, y: each row once."""

    planned: NDArray[np.int64]
    random: NDArray[np.int64]
    rows: NDArray[np.int64]
    x: Rows
    y: Rows

    def sides_of(self, chosen: NDArray[np.int64]) -> tuple[Rows, Rows]:
        """The unit rows of both sides at these rows."""
        places = np.searchsorted(self.rows, chosen)
        return self.x[places], self.y[places]


def check_sample(rows: int, settings: ReportSettings, of_rows: int) -> None:
    """Raises BadInput where so many rows are too few, or not needed."""
    size = settings.batch_sizes[0]
    least = LEAST_BATCHES * size
    if rows < least:
        raise BadInput(f"--rows {rows:,}: expected at least {least:,}, {LEAST_BATCHES} batches of {size}")
    if of_rows < least:
        raise BadInput(f"--rows: {of_rows:,} rows are few; without it the report takes them all")


def sampled_report(
    stream: PairStream, perm: NDArray[np.int64], rows: int, settings: ReportSettings, progress: Progress | None = None
) -> SampledReport:
    """Losses, gaps and the gap reduction of the full batches of `perm` (N,), each with a 95 % interval.

    rows: about how many to draw; of the settings, the first loss (infonce or symmetric), batch size and temperature
    count. Reads the embeddings twice. Raises BadInput for settings that do not fit the data.
    """
    check_sample(rows, settings, stream.rows)
    size, temperature, sides = settings.batch_sizes[0], settings.temperatures[0], settings.losses[0].sides
    clock = Stopwatch(progress or Progress())
    with clock.step("rows drawn"):
        drawn = _draw(stream, perm, rows, size, settings.seed)
    with clock.step("all columns"):
        backend = choose_backend(settings.device)
        total = _log_sums(stream, drawn, sides, temperature, backend, progress or Progress())
    with clock.step("batches"):
        means = _batch_means(drawn, total, settings.losses[0], temperature)
    count = len(drawn.planned)
    left = 1.0 - count / (stream.rows // size)
    planned, random = means["global"] - means["plan"], means["global"] - means["random"]
    figures = {
        "loss.global": _mean(means["global"], left),
        "loss.plan": _mean(means["plan"], left),
        "loss.random_mean": _mean(means["random"], 1.0),
        "gap.plan": _mean(planned, left),
        "gap.random_mean": _mean(random, 1.0),
        "gap.reduction": _reduction(planned, random),
    }
    return SampledReport(
        n=stream.rows,
        dim=stream.dim,
        batch_size=size,
        temperature=temperature,
        loss_kind=settings.losses[0].name,
        rows=drawn.planned.size,
        batches=count,
        timings=clock.seconds,
        **nest(figures),
    )


def _draw(stream: PairStream, perm: NDArray[np.int64], wanted: int, size: int, seed: int) -> _Drawn:
    """Batches of the plan without replacement, random rows for each, and one pass to read them."""
    full = stream.rows // size
    generator = np.random.default_rng([seed, 0x5A3D])
    chosen = np.sort(generator.choice(full, min(full, wanted // size), replace=False))
    planned = perm[: full * size].reshape(full, size)[chosen]
    random = generator.integers(stream.rows, size=(len(chosen), size - 1))
    rows = np.unique(np.concatenate([planned.reshape(-1), random.reshape(-1)]))
    x, y = np.empty((2, len(rows), stream.dim), np.float32)
    for start, left, right in stream.blocks():
        first, stop = np.searchsorted(rows, [start, start + len(left)])
        inside = rows[first:stop] - start
        x[first:stop], y[first:stop] = left[inside], right[inside]
    return _Drawn(planned, random, rows, x, y)


def _log_sums(
    stream: PairStream, drawn: _Drawn, sides: Sequence[int], temperature: float, backend: Backend, progress: Progress
) -> NDArray[np.float64]:
    """(S, n) log Σ_j exp(s_ij / temperature) over all N columns for the rows of the drawn batches, by side."""
    anchors = drawn.sides_of(drawn.planned.reshape(-1))
    sums = np.full((len(sides), drawn.planned.size), -np.inf)
    for start, x, y in stream.blocks():
        for line, side in enumerate(sides):
            keys = np.ascontiguousarray((y, x)[side])
            found, _ = loss_sums(anchors[side], keys, [temperature], backend, columns=False)
            np.logaddexp(sums[line], found.log_sums[0], out=sums[line])
        progress.progress((start + len(x)) * drawn.planned.size, stream.rows * drawn.planned.size)
    return sums


def _batch_means(
    drawn: _Drawn, total: NDArray[np.float64], loss: Loss, temperature: float
) -> dict[str, NDArray[np.float64]]:
    """(b,) means over the rows of each drawn batch: the global loss, that of the batch, and that of random ones."""
    size = drawn.planned.shape[1]
    planned = PairedRows(*drawn.sides_of(drawn.planned.reshape(-1)))
    inside = batch_sums(planned, np.arange(planned.rows), size, [temperature], SuspectPairs.none(), loss)
    positive = planned.diagonal() / temperature
    total = np.maximum(total, positive)
    sums = {"global": total, "plan": inside.log_sums[0, 0], "random": _random_sums(drawn, loss.sides, temperature)}
    return {
        name: (np.clip(found, positive, total) - positive).mean(axis=0).reshape(-1, size).mean(axis=1)
        for name, found in sums.items()
    }


def _random_sums(drawn: _Drawn, sides: Sequence[int], temperature: float) -> NDArray[np.float64]:
    """(S, n) log sums of each drawn row over its positive and the random rows of its batch."""
    found = np.empty((len(sides), *drawn.planned.shape))
    for batch, (planned, random) in enumerate(zip(drawn.planned, drawn.random, strict=True)):
        rows, others = drawn.sides_of(planned), drawn.sides_of(random)
        for line, side in enumerate(sides):
            own = (rows[side] * rows[1 - side]).sum(axis=1, keepdims=True)
            values = np.concatenate([own, rows[side] @ others[1 - side].T], axis=1)
            values[:, 1:][planned[:, None] == random] = -np.inf
            found[line, batch] = log_sum_exp(values, temperature)
    return found.reshape(len(sides), -1)


def _mean(values: NDArray[np.float64], left: float) -> Estimate:
    """A mean over batches; `left`: the share of all batches that was not drawn."""
    return _estimate(float(values.mean()), sqrt(left) * values)


def _reduction(planned: NDArray[np.float64], random: NDArray[np.float64]) -> Estimate | None:
    """1 − plan / random; None where random batches leave no gap."""
    whole = float(random.mean())
    if whole <= 0.0:
        return None
    ratio = float(planned.mean()) / whole
    return _estimate(1.0 - ratio, (planned - ratio * random) / whole)


def _estimate(value: float, spread: NDArray[np.float64]) -> Estimate:
    """The value with its 95 % interval; spread: of each batch, about any mean."""
    from scipy.special import stdtrit

    half = float(stdtrit(len(spread) - 1, 0.975)) * sqrt(float(spread.var(ddof=1)) / len(spread))
    return Estimate(value=value, low=value - half, high=value + half)
