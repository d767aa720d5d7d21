"""What a report's pass will find and need, told before it; and which settings would fit."""

from dataclasses import dataclass
from math import ceil

from gcbs_cli.errors import BadInput
from gcbs_cli.forecast import BYTES_PER_EDGE, Share, fitting_quantile, memory_limit, share_from
from gcbs_cli.memory import show_size
from gcbs_cli.pass_seconds import seconds_of_sums
from gcbs_cli.progress import show_seconds
from gcbs_cli.reports.losses import LossKind
from gcbs_cli.reports.sampled import LEAST_BATCHES
from gcbs_cli.reports.settings import ReportSettings
from gcbs_cli.similarity.backend import Backend
from gcbs_cli.similarity.canonical_values import UnitPair
from gcbs_cli.similarity.hardest import likely_candidates
from gcbs_cli.threshold import Threshold

BYTES_PER_TIED = 24
"""What an entry takes beyond that where it equals t: those of equal rows are suspected, both ways."""
BYTES_PER_CANDIDATE = 26
"""Peak memory for one candidate for the hardest of its row: found, joined, sorted by row."""
SUMS_PER_ROW = 24
"""Numbers of 8 bytes that a row has for each temperature: sums of both sides, with and without suspected pairs."""
COPIES_OF_HARDEST = 3
KEPT_BYTES_PER_ENTRY = 17
KEPT_BYTES_PER_CANDIDATE = 12
KEPT_BYTES_PER_TILE = 4096
SHARE_TO_SUGGEST = 0.95
"""Of the entries that would fit: what is free changes, and the next sample errs a little otherwise."""
ROWS_TO_SUGGEST = 100_000


@dataclass(frozen=True)
class ReportForecast:
    """What the passes will find and need: directed entries at or above t, how many of them equal it, bytes of memory at
    the peak, bytes of a work folder, seconds of the pass over X Yᵀ and, where a loss needs them, over X Xᵀ and Y Yᵀ.
    """

    entries: int
    tied: int
    memory: int
    disk: int
    seconds: float

    def entries_within(self, limit: int) -> int:
        """How many entries this much memory holds."""
        return (limit - (self.memory - BYTES_PER_EDGE * self.entries)) // BYTES_PER_EDGE


def forecast_report(
    pair: UnitPair, threshold: Threshold, settings: ReportSettings, backend: Backend, hardest: int
) -> ReportForecast:
    """Entries, memory, disk and time of a report, from a sample and timed tiles; `hardest`: the longest list a row."""
    share: Share = share_from(pair, threshold, settings.graph, settings.seed)
    entries = round(share.reaching * pair.rows**2)
    candidates = 2 * pair.rows * likely_candidates(hardest, pair.rows)
    temperatures, passes = len(settings.temperatures), 3 if _needs_own_sides(settings) else 1
    memory = 2 * pair.rows * pair.dim * 4 + BYTES_PER_EDGE * entries + BYTES_PER_CANDIDATE * candidates
    tied = round(share.tied * pair.rows**2)
    memory += (
        BYTES_PER_TIED * tied
        + 8 * SUMS_PER_ROW * temperatures * pair.rows
        + 4 * COPIES_OF_HARDEST * passes * hardest * pair.rows
    )
    height, width = settings.tile_rows or backend.tile_shape[0], backend.tile_shape[1]
    tiles = ceil(pair.rows / height) * ceil(pair.rows / width)
    sums = 8 * temperatures * (height + width) + KEPT_BYTES_PER_TILE
    disk = passes * (tiles * sums + KEPT_BYTES_PER_ENTRY * entries + KEPT_BYTES_PER_CANDIDATE * candidates)
    seconds = passes * seconds_of_sums(
        pair, threshold.value, settings.temperatures, settings.fn_margin, backend, hardest=hardest
    )
    return ReportForecast(entries, tied, memory, disk, seconds)


def _needs_own_sides(settings: ReportSettings) -> bool:
    return any(loss.kind is LossKind.SIMCLR for loss in settings.losses)


def check_report_forecast(pair: UnitPair, expected: ReportForecast, settings: ReportSettings) -> None:
    """Raises BadInput, before the pass, when the memory is more than there is or than is allowed."""
    limit = memory_limit(pair, settings.max_memory)
    if expected.memory <= limit:
        return
    ways = []
    room = expected.entries_within(limit)
    if 2 * expected.tied > expected.entries:
        ways.append("leaving out equal rows, whose products equal the threshold at every --quantile,")
    elif room >= pair.rows:
        ways.append(fitting_quantile(pair, int(SHARE_TO_SUGGEST * room)))
    if pair.rows >= LEAST_BATCHES * settings.batch_sizes[0]:
        rows = min(pair.rows, max(ROWS_TO_SUGGEST, LEAST_BATCHES * settings.batch_sizes[0]))
        ways.append(f"--rows {rows}, on some rows of a plan,")
    if settings.max_memory is not None:
        ways.append(f"--max-memory {ceil(expected.memory / 2**20)}M")
    advice = f"{' or '.join(ways)} would fit".replace(", would", " would") if ways else "use fewer rows"
    raise BadInput(
        f"--max-memory {show_size(limit)}: the report would need about {show_size(expected.memory)} "
        f"({expected.entries:,} entries from the threshold on); {advice}"
    )


def describe_report(expected: ReportForecast) -> str:
    """The forecast as one line."""
    return (
        f"expecting about {expected.entries:,} entries from the threshold on, {show_size(expected.memory)} of memory "
        f"and {show_seconds(expected.seconds)} for the pass"
    )
