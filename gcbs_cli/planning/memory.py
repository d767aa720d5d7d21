"""About how much memory a command takes: rows + tiles + c · entries, compared before the pass with what may be used."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from operator import attrgetter

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders import METHODS
from gcbs_cli.products.operations import DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS, Backend
from gcbs_cli.products.threshold import draw_sample, sample_rows
from gcbs_cli.settings.plan import PlanSettings, ThresholdSettings, WorkSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import SHARE_TO_USE, available_memory, show_size

BYTES_PER_COORDINATE = 13
"""Of both sides: two float32, as many whole numbers of two bytes at most, and copies of some of them."""
BYTES_PER_TILE_ENTRY = 20
"""A float32 product, copies of it in use, masks, and what sums over it need."""
BYTES_PER_SAMPLED_ENTRY = 10
LIBRARIES = 16 << 20
"""Allocators and threads beside everything that grows with the data."""
BYTES_PER_EDGE = 72
"""For an entry above t or on a list: joined, laid out both ways, and ordered (measured, as the next two)."""
BYTES_PER_REFINED_EDGE = 200
"""With similarities, worths and costs for the refinement, with what keeps rows apart, or with the ranks skipped."""
BYTES_PER_PARTED_EDGE = 350
"""With METIS's own copies of the weighted graph."""
MARGIN = 1.1
"""How much more to allow than a forecast whose entries are counted by a sample."""
SAMPLE_QUANTILE = 0.999
"""A sample that is large enough for this quantile counts the entries above a threshold."""


@dataclass(frozen=True)
class MemoryForecast:
    """What a command takes at its peak, in bytes: `fixed` for rows and tiles, `entry_bytes` for each of the entries."""

    rows: int
    """N, to tell how many entries a row would fit."""
    fixed: int
    entries: int = 0
    entry_bytes: int = BYTES_PER_EDGE

    @property
    def bytes(self) -> int:
        """In all."""
        return self.fixed + self.entries * self.entry_bytes

    def __str__(self) -> str:
        entries = f"{self.entries:,} entries and " if self.entries else ""
        return f"about {entries}{show_size(self.bytes)} of memory"


def fixed_bytes(rows: int, dim: int, backend: Backend, quantile: float | None = None) -> int:
    """Bytes of N rows with all that is made of them, and of the tiles or the sample under way, whichever is more."""
    tiles = backend.workers * (backend.tile_rows or DEFAULT_TILE_ROWS) * DEFAULT_TILE_COLS * BYTES_PER_TILE_ENTRY
    sample = BYTES_PER_SAMPLED_ENTRY * sample_rows(rows, SAMPLE_QUANTILE if quantile is None else quantile) ** 2
    return rows * dim * BYTES_PER_COORDINATE + max(tiles, sample) + LIBRARIES


def entries_by_quantile(rows: int, settings: ThresholdSettings) -> int:
    """How many entries the quantile leaves above it; 0 where a threshold was given, which needs the data."""
    quantile = settings.requested_quantile(rows)
    return 0 if quantile is None else round((1.0 - quantile) * rows * (rows - 1))


def entries_above(pairs: PairedRows, settings: ThresholdSettings, seed: int) -> int:
    """About how many entries exceed t: by the quantile, or by a sample where t was given."""
    if settings.threshold is None:
        return entries_by_quantile(pairs.rows, settings)
    share = draw_sample(pairs.grid, SAMPLE_QUANTILE, seed).share_above(pairs.grid.number(settings.threshold))
    return round(share * pairs.rows * (pairs.rows - 1))


def forecast_plan(
    rows: int, dim: int, settings: PlanSettings, backend: Backend, above: int | None = None
) -> MemoryForecast:
    """Memory of a plan of N rows; above: entries above t, by default those of the quantile."""
    entries = entries_by_quantile(rows, settings) if above is None else above
    if settings.rank_window is not None:
        entries = rows * settings.rank_window[1]
    elif settings.graph == "top-m":
        entries = 2 * rows * settings.top
    entry_bytes = BYTES_PER_EDGE
    if METHODS[settings.method].needs_weights:
        entry_bytes = BYTES_PER_PARTED_EDGE
    elif settings.refine or settings.avoids or settings.rank_window is not None:
        entry_bytes = BYTES_PER_REFINED_EDGE
    fixed = fixed_bytes(rows, dim, backend, settings.requested_quantile(rows))
    return MemoryForecast(rows, fixed, entries, entry_bytes)


def forecast_plans(pairs: PairedRows, plans: Sequence[PlanSettings], backend: Backend) -> MemoryForecast:
    """Memory of the plan that takes most, of some with one threshold and seed."""
    above = entries_above(pairs, plans[0], plans[0].seed)
    forecasts = [forecast_plan(pairs.rows, pairs.dim, settings, backend, above) for settings in plans]
    return max(forecasts, key=attrgetter("bytes"))


def check_memory(forecast: MemoryForecast, work: WorkSettings, task: str, advice: str, *, held: int = 0) -> int:
    """How many entries may be found. Raises BadInput where the work would take more memory than it may.

    task: what needs the memory; advice: what to do, for the error's end; held: bytes of the forecast that are taken
    already.
    """
    if work.max_memory is None:
        memory = int(SHARE_TO_USE * available_memory()) + held
        limit = f"{show_size(memory)} of memory can be used"
    else:
        memory = work.max_memory
        limit = f"--max-memory {show_size(memory)}"
        advice = f"--max-memory {ceil(MARGIN * forecast.bytes / 2**20)}M would fit, or {advice}"
    entries = max(0, memory - forecast.fixed) // forecast.entry_bytes
    if forecast.bytes > memory:
        if entries > 0:
            advice = f"{entries / forecast.rows:,.1f} entries a row would fit; {advice}"
        raise BadInput(f"{limit}: {task} would need {forecast}; {advice}")
    return entries
