"""How many entries a pass will find and how much memory it needs, told before it; and what would fit instead."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import lists_wanted
from gcbs_cli.orders import METHODS
from gcbs_cli.products.operations import BYTES_PER_TILE_ENTRY, DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS, Backend, EntryLimit
from gcbs_cli.products.suspects import suspected
from gcbs_cli.products.threshold import Threshold, draw_sample, sample_rows
from gcbs_cli.products.top_lists import likely_candidates
from gcbs_cli.settings.plan import PlanSettings, ThresholdSettings, WorkSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import SHARE_TO_USE, available_cpus, available_memory, show_size

BYTES_PER_EDGE = 72
"""Peak memory for one directed entry above the threshold: found, joined, sorted both ways, ordered (measured)."""
BYTES_PER_REFINED_EDGE, BYTES_PER_PARTED_EDGE = 145, 195
"""The same where the order is refined, and where METIS works on the weighted graph (measured)."""
BYTES_PER_AVOIDED_EDGE = 40
"""More of each where some are too hard."""
BYTES_PER_PARTED_ROW, WEIGHING = 3500, 48 << 20
"""What METIS takes for a row, and what weights take whatever there is."""
SMALL_PARTS = 16 << 20
"""What allocators and libraries take beside everything that is counted."""
BYTES_PER_LISTED = 40
"""Peak memory for one candidate for the lists of the hardest: found, joined, sorted by row (measured)."""
BYTES_PER_SUSPECT, BYTES_PER_TIED = 40, 24
"""What a suspected entry takes in a report beyond an edge (measured: 28), and one that equals t."""
SUMS_PER_ROW = 24
"""Numbers of 8 bytes that a row of a report has for each temperature, by side, with and without suspected pairs."""
COPIES_OF_HARDEST = 3
BYTES_PER_HARD_ENTRY = 40
"""Scratch of a report for an entry of a tile that may be among the hardest of its row or column."""
REPORT_SCRATCH = 80 << 20
"""For what a report samples, from 4,096 rows on: uniformity, random batches."""
BYTES_PER_RAW_COORDINATE = 12
"""Of both sides in a report that normalises coordinates by batch, which needs the rows as they were (measured: 10)."""
BYTES_PER_SWAPPED_ROW = 48
"""What a row takes in the refinement, for each thread."""
BYTES_PER_DRAWN = 10
"""For each number of the sample from which t comes, and a copy of it in order (measured)."""
SAMPLE_QUANTILE = 0.999
"""A sample that is large enough for this quantile counts the entries."""
SHARE_TO_SUGGEST = 0.9
"""Of the entries that would fit: the sample errs, and what is free changes."""


@dataclass(frozen=True)
class Forecast:
    """What a pass will find and need."""

    fixed: int
    """Bytes that are needed whatever is found, the lists of the hardest included."""
    above: int
    """Entries above t; in a report those that equal it, too."""
    entry_bytes: int = BYTES_PER_EDGE
    """Of memory for each of them."""
    listed: int = 0
    """Candidates for the hardest of each row and column, whatever the quantile."""
    tied: int = 0
    """How many of the entries equal t."""
    taken: int = 0
    """Of the fixed bytes those that are taken before the pass."""
    sampled: bool = True
    """Whether a sample was seen; before it, only what is fixed can be said to be too much."""

    @property
    def entries(self) -> int:
        """All that the pass finds."""
        return self.above + self.listed

    @property
    def memory(self) -> int:
        """Bytes at the peak, of the pass and of what follows it."""
        return self.fixed + self.entry_bytes * self.above

    def beside(self, taken: int) -> "Forecast":
        """The same where so many bytes more are taken already."""
        return replace(self, fixed=self.fixed + taken, taken=self.taken + taken)

    def __str__(self) -> str:
        found = f"{self.entries:,} entries and " if self.entries else ""
        return f"about {found}{show_size(self.memory)} of memory"


def forecast(
    rows: PairedRows,
    threshold: Threshold | None,
    plans: Sequence[PlanSettings],
    device: Backend,
) -> Forecast:
    """Entries and memory of the pass of plans with one quantile and seed, from a sample; without t, by the quantile
    alone.
    """
    quantile = plans[0].requested_quantile(rows.rows)
    reaching = promised(threshold, quantile)
    if quantile is None and threshold is not None:
        reaching = draw_sample(rows.grid, SAMPLE_QUANTILE, plans[0].seed).share_above(threshold.number)
    expected = forecast_share(rows.rows, rows.dim, reaching, plans, device)
    return replace(expected, sampled=threshold is not None)


def forecast_share(rows: int, dim: int, reaching: float, plans: Sequence[PlanSettings], device: Backend) -> Forecast:
    """The same where this share of the N² entries reaches t."""
    weighted = any(METHODS[plan.method].needs_weights for plan in plans)
    avoids = any(plan.avoids for plan in plans)
    each, fixed = BYTES_PER_EDGE, needed(rows, dim, device)
    if weighted or avoids or any(plan.refine for plan in plans):
        each = BYTES_PER_PARTED_EDGE if weighted else BYTES_PER_REFINED_EDGE
        each += BYTES_PER_AVOIDED_EDGE * avoids
        fixed += WEIGHING + rows * (BYTES_PER_PARTED_ROW * weighted + BYTES_PER_SWAPPED_ROW * available_cpus())
    length = max(map(lists_wanted, plans))
    listed = 2 * rows * likely_candidates(length, rows) if length else 0
    fixed += max(BYTES_PER_LISTED * listed, each * 2 * rows * length)
    return Forecast(
        max(fixed, _with_sample(rows, dim, plans[0])),
        round(reaching * rows**2) if any(plan.uses_threshold for plan in plans) else 0,
        each,
        listed,
        taken=held(rows, dim),
    )


def forecast_report(
    rows: PairedRows, threshold: Threshold | None, settings: ReportSettings, device: Backend, hardest: int
) -> Forecast:
    """Entries and memory of a report's passes as `forecast` says them; `hardest`: the longest list a row."""
    passes = 3 if "simclr" in settings.loss else 1
    height, width = (min(rows.rows, side) for side in device.tile_shape)
    hard = BYTES_PER_HARD_ENTRY * (min(1.0, hardest / height) + min(1.0, hardest / width))
    scratch = device.workers * height * width * ceil(BYTES_PER_TILE_ENTRY + hard)
    scratch += REPORT_SCRATCH * min(rows.rows, 4096) // 4096
    sums = 8 * SUMS_PER_ROW * len(settings.temperatures) + 4 * COPIES_OF_HARDEST * passes * hardest
    raw = BYTES_PER_RAW_COORDINATE if settings.batch_coordinates else 0
    taken, entries = held(rows.rows, rows.dim), rows.rows**2
    fixed = max(
        taken + rows.rows * ((1 + raw) * rows.dim + sums) + scratch, _with_sample(rows.rows, rows.dim, settings)
    )
    by_quantile = promised(threshold, settings.requested_quantile(rows.rows))
    if threshold is None:
        return Forecast(fixed, round(by_quantile * entries), taken=taken, sampled=False)
    sample = draw_sample(rows.grid, SAMPLE_QUANTILE, settings.seed)
    sampled = sample.share_above(threshold.number - 1)
    reaching, tied = max(by_quantile, sampled), sampled - sample.share_above(threshold.number)
    found, ties = sample.reaching(threshold.number), tied / reaching if reaching else 0.0
    suspects = float(suspected(rows.grid, found, settings.fn_margin).mean()) if len(found) else 0.0
    each = ceil(BYTES_PER_EDGE + ties * BYTES_PER_TIED + (1.0 - ties) * suspects * BYTES_PER_SUSPECT)
    return Forecast(fixed, round(reaching * entries), each, tied=round(tied * entries), taken=taken)


def needed(rows: int, dim: int, device: Backend) -> int:
    """Bytes that a pass needs whatever it finds: the embeddings, their grid, its blocks, and the tiles' scratch."""
    scratch = device.workers * DEFAULT_TILE_ROWS * DEFAULT_TILE_COLS * BYTES_PER_TILE_ENTRY
    return held(rows, dim) + rows * dim + scratch + SMALL_PARTS


def held(rows: int, dim: int) -> int:
    """Bytes that are taken before the pass begins: both sides in float32, and as whole numbers of two bytes at most."""
    return 2 * rows * dim * (4 + 2)


def _with_sample(rows: int, dim: int, settings: ThresholdSettings) -> int:
    """Bytes that are taken when t is looked for."""
    quantile = settings.requested_quantile(rows)
    size = sample_rows(rows, SAMPLE_QUANTILE if quantile is None else quantile)
    return held(rows, dim) + BYTES_PER_DRAWN * size**2


def promised(threshold: Threshold | None, quantile: float | None) -> float:
    """The share of the N² entries that may reach t, by the quantile alone; 0 where a threshold was given."""
    reaching = 0.0 if quantile is None else 1.0 - quantile
    interval = None if threshold is None else threshold.interval
    # Less where many entries equal t.
    return reaching if interval is None else min(reaching, 1.0 - interval[0])


def check_room(
    rows: int, expected: Forecast, work: WorkSettings, task: str, otherwise: str, most: int | None = None
) -> EntryLimit:
    """What a pass over so many rows may find before it is stopped: what fits, or more than a sample errs.

    Raises BadInput before any long work when it would find more entries (most), or take more memory, than it may. For
    the message: `task` needs them, `otherwise` helps beside a higher quantile and a higher limit.
    """
    limit = work.max_memory or int(SHARE_TO_USE * available_memory() + expected.taken)  # what is taken included
    entries = (limit - expected.fixed) // expected.entry_bytes
    if most is not None and expected.sampled and expected.entries > most:
        head, fits = f"--max-edges {most:,}", [f"--max-edges {expected.entries}"]
        entries = most - expected.listed
    elif (expected.memory if expected.sampled else expected.fixed) > limit:
        head, fits = f"{show_size(limit)} of memory can be used", []
        if work.max_memory is not None:
            head, fits = f"--max-memory {show_size(limit)}", [f"--max-memory {ceil(expected.memory / 2**20)}M"]
    else:
        may_find = expected.listed + max(entries, 2 * expected.entries + rows)
        return EntryLimit(may_find, "use a higher --quantile, or leave out rows that are equal or nearly so")
    entries = int(SHARE_TO_SUGGEST * entries)
    if 2 * expected.tied > expected.entries:
        otherwise = f"leave out equal rows, which no --quantile separates, or {otherwise}"
    elif entries > 0 and expected.above:
        share = entries / rows**2
        quantile = f"{1.0 - share:.{4 - floor(log10(share))}f}".rstrip("0")
        fits.insert(0, f"--quantile {quantile} (about {entries / rows:.3g} a row)")
    advice = f"{' or '.join(fits)} would fit, or " if fits else ""
    raise BadInput(f"{head}: {task} would need {expected}; {advice}{otherwise}")
