"""How much a report's passes will find and how much memory they need, told before them; and which settings fit."""

from dataclasses import dataclass
from math import ceil

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.room import (
    BYTES_PER_EDGE,
    LESS_ADVICE,
    SAMPLE_QUANTILE,
    SHARE_TO_SUGGEST,
    fitting_quantile,
    held,
    memory_limit,
    shares,
)
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sample import Sample, draw_sample
from gcbs_cli.products.suspects import suspected
from gcbs_cli.products.threshold import Threshold
from gcbs_cli.settings.report import LEAST_BATCHES, LossKind, ReportSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import show_size

BYTES_PER_SUSPECT, BYTES_PER_TIED = 40, 24
"""What a suspected entry takes beyond that (measured: 28), and one that equals t."""
SCRATCH_PER_ENTRY = 13
LEAST_SCRATCH = 64 << 20
"""For sampled figures and compiled code, from 4,096 rows on."""
SUMS_PER_ROW = 24
"""Numbers of 8 bytes that a row has for each temperature: sums of both sides, with and without suspected pairs."""
COPIES_OF_HARDEST = 3
ROWS_TO_SUGGEST = 100_000


@dataclass(frozen=True)
class ReportForecast:
    """What the passes will find and need: directed entries at or above t, how many of them equal it, bytes of memory at
    the peak, and those of them that are needed whatever the threshold.
    """

    entries: int
    tied: int
    memory: int
    fixed: int

    def entries_within(self, limit: int) -> int:
        """How many entries this much memory holds, if as many of them are suspected as here."""
        return int((limit - self.fixed) * self.entries / max(1, self.memory - self.fixed))


def forecast_report(
    pair: PairedRows, threshold: Threshold, settings: ReportSettings, backend: Backend, hardest: int
) -> ReportForecast:
    """Entries and memory of a report, from a sample; `hardest`: the longest list a row."""
    sample = draw_sample(pair.grid, SAMPLE_QUANTILE, settings.seed)
    reaching, share_tied = shares(pair, threshold, settings.graph, settings.seed, sample=sample)
    entries = round(reaching * pair.rows**2)
    temperatures, passes = len(settings.temperatures), 3 if _needs_own_sides(settings) else 1
    tied = round(share_tied * pair.rows**2)
    suspects = round(_suspect_share(pair, threshold, settings, sample) * (entries - tied))
    fixed = held(pair.rows, pair.dim) + pair.rows * pair.dim + _scratch(pair.rows, backend)
    fixed += pair.rows * (8 * SUMS_PER_ROW * temperatures + 4 * COPIES_OF_HARDEST * passes * hardest)
    memory = fixed + BYTES_PER_EDGE * entries + BYTES_PER_TIED * tied + BYTES_PER_SUSPECT * suspects
    return ReportForecast(entries, tied, memory, fixed)


def _suspect_share(pair: PairedRows, threshold: Threshold, settings: ReportSettings, sample: Sample) -> float:
    """Of the sampled entries from t on, how many are suspected false negatives."""
    reaching = sample.reaching(threshold.number)
    return float(suspected(pair.grid, reaching, settings.fn_margin).mean()) if len(reaching) else 0.0


def _scratch(rows: int, backend: Backend) -> int:
    height, width = (min(rows, side) for side in backend.tile_shape)
    return backend.workers * height * width * SCRATCH_PER_ENTRY + LEAST_SCRATCH * min(rows, 4096) // 4096


def report_entry_limit(pair: PairedRows, expected: ReportForecast, settings: ReportSettings) -> EntryLimit:
    """What the pass may find before it is stopped: what fits, or more than a sample errs."""
    room = expected.entries_within(memory_limit(pair, settings.work.max_memory))
    return EntryLimit(
        max(room, 2 * expected.entries + pair.rows),
        LESS_ADVICE,
    )


def _needs_own_sides(settings: ReportSettings) -> bool:
    return any(loss.kind is LossKind.SIMCLR for loss in settings.losses)


def check_report_forecast(pair: PairedRows, expected: ReportForecast, settings: ReportSettings) -> None:
    """Raises BadInput, before the pass, when the memory is more than there is or than is allowed."""
    limit = memory_limit(pair, settings.work.max_memory)
    if expected.memory <= limit:
        return
    ways = []
    room = expected.entries_within(limit)
    if 2 * expected.tied > expected.entries:
        ways.append("leaving out equal rows, whose products equal the threshold at every --quantile,")
    elif room >= pair.rows:
        ways.append(fitting_quantile(pair.rows, int(SHARE_TO_SUGGEST * room)))
    if pair.rows >= LEAST_BATCHES * settings.batch_sizes[0]:
        rows = min(pair.rows, max(ROWS_TO_SUGGEST, LEAST_BATCHES * settings.batch_sizes[0]))
        ways.append(f"--rows {rows}, on some rows of a plan,")
    if settings.work.max_memory is not None:
        ways.append(f"--max-memory {ceil(expected.memory / 2**20)}M")
    advice = f"{' or '.join(ways)} would fit".replace(", would", " would") if ways else "use fewer rows"
    raise BadInput(
        f"--max-memory {show_size(limit)}: the report would need about {show_size(expected.memory)} "
        f"({expected.entries:,} entries from the threshold on); {advice}"
    )
