"""How much a pass will find and how much memory it needs, told before it; and which settings would fit."""

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import lists_wanted
from gcbs_cli.orders import planner_named
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sample import Sample, draw_sample
from gcbs_cli.products.suspects import suspected
from gcbs_cli.products.threshold import Threshold
from gcbs_cli.products.tiles import BYTES_PER_TILE_ENTRY, DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS
from gcbs_cli.products.top_lists import likely_candidates
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.settings.report import LEAST_BATCHES, LossKind, ReportSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import SHARE_TO_USE, available_cpus, available_memory, show_size

BYTES_PER_EDGE = 72
"""Peak memory for one directed entry above the threshold: found, joined, sorted both ways, ordered (measured)."""
BYTES_PER_REFINED_EDGE = 130
"""The same where the order is refined: with its similarities, and what swaps gain by it (measured)."""
BYTES_PER_PARTED_EDGE = 200
"""The same where METIS works on the weighted graph (measured)."""
BYTES_PER_LISTED = 40
"""Peak memory for one candidate for the lists of the hardest: found, joined, sorted by row (measured)."""
BYTES_PER_SUSPECT, BYTES_PER_TIED = 40, 24
"""What a suspected entry takes in a report beyond an edge (measured: 28), and one that equals t."""
SUMS_PER_ROW = 24
"""Numbers of 8 bytes that a row of a report has for each temperature, by side, with and without suspected pairs."""
COPIES_OF_HARDEST = 3
REPORT_TILE_BYTES = 13
"""Scratch of a report for each entry of a tile."""
REPORT_SCRATCH = 48 << 20
"""For what a report samples, from 4,096 rows on: uniformity, random batches."""
ROWS_TO_SUGGEST = 100_000
"""For a report on some rows."""
BYTES_PER_SWAPPED_ROW = 48
"""What a row takes in the refinement, for each thread."""
SAMPLE_QUANTILE = 0.999
"""A sample that is large enough for this quantile counts the entries."""
SHARE_TO_SUGGEST = 0.9
"""Of the entries that would fit: the sample errs, and what is free changes."""
LESS_ADVICE = "use a higher --quantile, or leave out rows that are equal or nearly so"


@dataclass(frozen=True)
class Forecast:
    """What a pass will find and need."""

    fixed: int
    """Bytes that are needed whatever is found."""
    above: int
    """Entries above t, or from t on where suspected pairs are looked for."""
    entry_bytes: int = BYTES_PER_EDGE
    """Of this machine's memory for each of them: none where the graph stays on a GPU."""
    listed: int = 0
    """Candidates for the hardest of each row and column, whatever the quantile."""
    tied: int = 0
    """How many of the entries equal t."""

    @property
    def entries(self) -> int:
        """All that the pass finds."""
        return self.above + self.listed

    @property
    def memory(self) -> int:
        """Bytes at the peak, of the pass and of what follows it."""
        return self.fixed + self.entry_bytes * self.above + BYTES_PER_LISTED * self.listed


def describe(expected: Forecast) -> str:
    """The forecast as one line."""
    memory = show_size(expected.memory)
    return f"expecting about {expected.entries:,} entries above the threshold and {memory} of memory"


def forecast(
    rows: PairedRows,
    threshold: Threshold,
    settings: PlanSettings,
    device: Backend,
    *,
    on_host: bool = False,
    lists: int | None = None,
    any_method: bool = False,
) -> Forecast:
    """Entries and memory of a plan's pass, from a sample.

    `on_host`: the edges come to the host's memory even if a device could hold them; `lists`: how long the lists of the
    hardest are, by default as the settings need them; `any_method`: whatever method and refinement follow.
    """
    ties = settings.false_negatives.active
    reaching, tied = shares(rows, threshold, settings.graph, settings.seed, ties=ties)
    counted = settings.graph.uses_threshold or ties
    entry_bytes = 0 if stays_on_device(settings, device) and not on_host else _bytes_per_edge(settings, any_method)
    swapped = rows.rows * available_cpus() if settings.refine or any_method else 0
    return Forecast(
        needed(rows.rows, rows.dim, device) + BYTES_PER_SWAPPED_ROW * swapped,
        round(reaching * rows.rows**2) if counted else 0,
        entry_bytes,
        listed(lists_wanted(settings) if lists is None else lists, rows.rows),
        round(tied * rows.rows**2),
    )


def forecast_report(
    rows: PairedRows, threshold: Threshold, settings: ReportSettings, device: Backend, hardest: int
) -> Forecast:
    """Entries and memory of a report's passes, from a sample; `hardest`: the longest list a row."""
    sample = draw_sample(rows.grid, SAMPLE_QUANTILE, settings.seed)
    reaching, tied = shares(rows, threshold, settings.graph, settings.seed, sample=sample)
    found, ties = sample.reaching(threshold.number), tied / reaching if reaching else 0.0
    suspects = float(suspected(rows.grid, found, settings.fn_margin).mean()) if len(found) else 0.0
    passes = 3 if any(loss.kind is LossKind.SIMCLR for loss in settings.losses) else 1
    height, width = (min(rows.rows, side) for side in device.tile_shape)
    scratch = device.workers * height * width * REPORT_TILE_BYTES + REPORT_SCRATCH * min(rows.rows, 4096) // 4096
    sums = 8 * SUMS_PER_ROW * len(settings.temperatures) + 4 * COPIES_OF_HARDEST * passes * hardest
    return Forecast(
        held(rows.rows, rows.dim) + rows.rows * (rows.dim + sums) + scratch,
        round(reaching * rows.rows**2),
        ceil(BYTES_PER_EDGE + ties * BYTES_PER_TIED + (1.0 - ties) * suspects * BYTES_PER_SUSPECT),
        tied=round(tied * rows.rows**2),
    )


def needed(rows: int, dim: int, device: Backend) -> int:
    """Bytes that a pass needs whatever it finds: the embeddings, their grid, its blocks, and the tiles' scratch."""
    return held(rows, dim) + rows * dim + device.workers * DEFAULT_TILE_ROWS * DEFAULT_TILE_COLS * BYTES_PER_TILE_ENTRY


def held(rows: int, dim: int) -> int:
    """Bytes that are taken before the pass begins: both sides in float32, and as whole numbers of a byte."""
    return 2 * rows * dim * (4 + 1)


def listed(length: int, rows: int) -> int:
    """Candidates for the `length` hardest of all rows and columns."""
    return 2 * rows * likely_candidates(length, rows) if length else 0


def _bytes_per_edge(settings: PlanSettings, any_method: bool) -> int:
    """At the peak of a plan. Of a top-m graph, entries above t are only looked at for suspected pairs."""
    weighted = any_method or planner_named(settings.method).needs_weights
    if weighted and settings.graph.uses_threshold:
        return BYTES_PER_PARTED_EDGE
    return BYTES_PER_REFINED_EDGE if settings.refine or any_method else BYTES_PER_EDGE


def shares(
    rows: PairedRows,
    threshold: Threshold,
    graph: GraphSettings,
    seed: int,
    *,
    ties: bool = True,
    sample: Sample | None = None,
) -> tuple[float, float]:
    """Of the N² entries: the share that may reach t, and the share that equals it, 0 unless `ties` count.

    From a sample, or from what the quantile promises.
    """
    quantile = graph.requested_quantile(rows.rows)
    reaching, tied = 1.0 - quantile if quantile is not None else 0.0, 0.0
    if threshold.interval is not None:
        reaching = min(reaching, 1.0 - threshold.interval[0])  # less where many entries equal t
    if quantile is None or ties:
        sample = sample or draw_sample(rows.grid, SAMPLE_QUANTILE, seed)
        above = sample.share_above(threshold.number)
        tied = sample.share_above(threshold.number - 1) - above if ties else 0.0
        reaching = max(reaching, above + tied)
    return reaching, tied


def memory_limit(rows: PairedRows, max_memory: int | None) -> int:
    """The bytes that may be used, those taken already included: as asked, or most of what is free."""
    return max_memory or int(SHARE_TO_USE * available_memory() + held(rows.rows, rows.dim))


def check_room(rows: PairedRows, expected: Forecast, settings: PlanSettings) -> None:
    """Raises BadInput before any long work when the edges or the memory are more than allowed."""
    most, limit = settings.work.max_edges, memory_limit(rows, settings.work.max_memory)
    if most is not None and expected.entries > most:
        said = f"--max-edges {most:,}: about {expected.entries:,} entries lie above the threshold"
        raise BadInput(f"{said}; {_advice(rows, expected, settings, most, 1, 1)}")
    if expected.memory > limit:
        said = (
            f"--max-memory {show_size(limit)}: the plan would need about {show_size(expected.memory)} "
            f"({expected.entries:,} entries above the threshold)"
        )
        room, each = limit - expected.fixed, max(expected.entry_bytes, 1)
        raise BadInput(f"{said}; {_advice(rows, expected, settings, room, each, BYTES_PER_LISTED)}")


def check_report_room(rows: PairedRows, expected: Forecast, limit: int, settings: ReportSettings) -> None:
    """Raises BadInput before a report's passes when the memory is more than `limit`, of `memory_limit`."""
    if expected.memory <= limit:
        return
    ways, entries = [], _entries_within(limit - expected.fixed, expected.entry_bytes, 1)
    if 2 * expected.tied > expected.entries:
        ways.append("leaving out equal rows, whose products equal the threshold at every --quantile,")
    elif entries >= rows.rows:
        ways.append(fitting_quantile(rows.rows, entries))
    least = LEAST_BATCHES * settings.batch_sizes[0]
    if rows.rows >= least:
        ways.append(f"--rows {min(rows.rows, max(ROWS_TO_SUGGEST, least))}, on some rows of a plan,")
    if settings.work.max_memory is not None:
        ways.append(f"--max-memory {ceil(expected.memory / 2**20)}M")
    advice = f"{' or '.join(ways)} would fit".replace(", would", " would") if ways else "use fewer rows"
    raise BadInput(
        f"--max-memory {show_size(limit)}: the report would need about {show_size(expected.memory)} "
        f"({expected.entries:,} entries from the threshold on); {advice}"
    )


def entry_limit(rows: PairedRows, expected: Forecast, max_memory: int | None) -> EntryLimit | None:
    """What the pass may find on this machine before it is stopped: what fits, or more than a sample errs."""
    if expected.entry_bytes == 0:
        return None
    left = memory_limit(rows, max_memory) - expected.fixed - BYTES_PER_LISTED * expected.listed
    return EntryLimit(
        max(expected.listed + left // expected.entry_bytes, 2 * expected.entries + rows.rows), LESS_ADVICE
    )


def _advice(rows: PairedRows, expected: Forecast, settings: PlanSettings, room: int, above: int, each: int) -> str:
    """Which options need no more room: a higher quantile, or shorter lists where these take it.

    `above`, `each`: what an entry above t, or a candidate of the lists, takes of the room.
    """
    if 2 * expected.tied > expected.entries:
        return (
            f"{expected.tied:,} of them equal it, as products of equal rows do, and no --quantile parts them; leave "
            "out equal rows, or leave out --fn-margin"
        )
    itself = int(settings.false_negatives.active)  # t is an entry too
    entries = _entries_within(room - each * expected.listed, above, itself)
    if not expected.listed or (expected.above and entries >= rows.rows):
        if entries < 1 or (above > 1 and entries < rows.rows):
            return "use fewer rows, or allow more"
        return f"{fitting_quantile(rows.rows, entries)} would fit"
    kept = min(expected.above, _entries_within(room // 2, above, itself))
    length = _longest_list(rows.rows, (room - (kept + itself) * above) // each)
    advice = _shorter_lists(settings, length) if length else []
    if length and kept < expected.above:
        advice.append(fitting_quantile(rows.rows, kept))
    return f"{' and '.join(advice)} would fit" if advice else "the lists of the hardest alone hold more; use fewer rows"


def _entries_within(room: int, each: int, itself: int) -> int:
    """How many entries to suggest for this room; `itself`: 1 where t is one of them."""
    return ceil(SHARE_TO_SUGGEST * (room // each - itself))


def _longest_list(rows: int, entries: int) -> int:
    """The greatest length whose candidates are so many or fewer; 0 where none is."""
    return bisect_right(range(rows), entries, lo=1, key=lambda length: listed(length, rows)) - 1


def _shorter_lists(settings: PlanSettings, length: int) -> list[str]:
    """The options that ask for lists longer than that, with what to give instead."""
    graph = settings.graph
    if graph.rank_window is not None:
        return [f"--rank-window P:M with P + M = {length}"] if sum(graph.rank_window) > length else []
    return [f"--top {length}"] if graph.graph == "top-m" and graph.top > length else []


def fitting_quantile(rows: int, entries: int) -> str:
    """The --quantile that leaves so many of the N² entries above it."""
    # In integers, with two digits of the share above however small it is, and that rounded down.
    digits = max(7, len(str(rows**2 // entries)) + 2)
    above = entries * 10**digits // rows**2
    quantile = f"0.{10**digits - above:0{digits}d}".rstrip("0")
    return f"--quantile {quantile} (about {entries / rows:.3g} a row)"


def stays_on_device(settings: PlanSettings, device: Backend) -> bool:
    """Whether the graph can stay on a GPU from its edges to its order."""
    return (
        device.name.startswith("cuda")
        and settings.method in ("rcm", "cm")
        and settings.graph.uses_threshold
        and lists_wanted(settings) == 0
        and not (settings.refine or settings.false_negatives.active)
    )
