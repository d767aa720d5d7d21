"""What a pass will find and need, told before it: entries and memory; and which settings would fit."""

from bisect import bisect_right
from dataclasses import dataclass

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.graph.hard_pairs import lists_wanted
from gcbs_cli.orders import planner_named
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sample import Sample, draw_sample
from gcbs_cli.products.threshold import Threshold
from gcbs_cli.products.tiles import DEFAULT_TILE_COLS
from gcbs_cli.products.top_lists import likely_candidates
from gcbs_cli.settings.plan import GraphSettings, PlanSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import SHARE_TO_USE, available_cpus, available_memory, show_size

BYTES_PER_EDGE = 72
"""Peak memory for one directed entry above the threshold: found, joined, sorted both ways, ordered (measured)."""
BYTES_PER_REFINED_EDGE = 130
"""The same where the order is refined: with its similarities, and what swaps gain by it (measured)."""
BYTES_PER_PARTED_EDGE = 200
"""The same where METIS works on the weighted graph (measured)."""
BYTES_PER_SWAPPED_ROW = 48
"""What a row takes in the refinement, for each thread."""
SAMPLE_QUANTILE = 0.999
"""A sample that is large enough for this quantile counts the entries."""
BYTES_PER_LISTED = 40
"""Peak memory for one candidate for the lists of the hardest: found, joined, sorted by row (measured)."""


@dataclass(frozen=True)
class Forecast:
    """What the pass will find and need: directed entries above t and listed, bytes at the peak.

    `entry_bytes`: the part of `memory` that each entry takes: none of this machine's where the graph stays on a GPU;
    `listed`: the entries that the pass lists for the hardest of each row and column, whatever the quantile;
    `tied`: how many of the entries equal t, where these are looked at too, for suspected pairs.
    """

    entries: int
    memory: int
    entry_bytes: int = BYTES_PER_EDGE
    listed: int = 0
    tied: int = 0

    @property
    def above(self) -> int:
        """The entries that are not listed for the hardest."""
        return self.entries - self.listed

    @property
    def fixed(self) -> int:
        """The bytes that are needed whatever is found."""
        return self.memory - self.entry_bytes * self.above - BYTES_PER_LISTED * self.listed

    def entries_within(self, limit: int) -> int:
        """How many entries this much memory holds, listed ones included."""
        left = limit - self.fixed - BYTES_PER_LISTED * self.listed
        return self.listed + left // max(self.entry_bytes, 1)


def forecast(
    pair: PairedRows,
    threshold: Threshold,
    settings: PlanSettings,
    backend: Backend,
    *,
    on_host: bool = False,
    lists: int | None = None,
    any_method: bool = False,
) -> Forecast:
    """Entries and memory of the pass, from a sample; the memory is for what follows it too.

    `on_host`: the edges come to the host's memory even if a device could hold them; `lists`: how long the lists of the
    hardest are, by default as the settings need them; `any_method`: whatever method and refinement follow.
    """
    ties = settings.false_negatives.active
    share = share_from(pair, threshold, settings.graph, settings.seed, ties=ties)
    above = round(share.reaching * pair.rows**2) if settings.graph.uses_threshold or ties else 0
    length = lists_wanted(settings) if lists is None else lists
    listed = _listed(length, pair.rows)
    embeddings = 2 * pair.rows * pair.dim * 4
    scratch = backend.workers * DEFAULT_TILE_COLS * 1024 * 9
    entry_bytes = 0 if stays_on_device(settings, backend) and not on_host else _bytes_per_edge(settings, any_method)
    memory = embeddings + scratch + entry_bytes * above + BYTES_PER_LISTED * listed
    if settings.refine or any_method:
        memory += BYTES_PER_SWAPPED_ROW * pair.rows * available_cpus()
    return Forecast(above + listed, memory, entry_bytes, listed, round(share.tied * pair.rows**2))


def _bytes_per_edge(settings: PlanSettings, any_method: bool) -> int:
    """At the peak of a plan. Of a top-m graph, entries above t are only looked at for suspected pairs."""
    weighted = any_method or planner_named(settings.method).needs_weights
    if weighted and settings.graph.uses_threshold:
        return BYTES_PER_PARTED_EDGE
    return BYTES_PER_REFINED_EDGE if settings.refine or any_method else BYTES_PER_EDGE


@dataclass(frozen=True)
class Share:
    """Of the N² entries: how many may reach t, and how many of all equal it, where that was asked."""

    reaching: float
    tied: float


def share_from(
    pair: PairedRows,
    threshold: Threshold,
    graph: GraphSettings,
    seed: int,
    *,
    ties: bool = True,
    sample: Sample | None = None,
) -> Share:
    """The shares from a sample, or from what the quantile promises; `ties`: whether entries equal to t count."""
    quantile = graph.requested_quantile(pair.rows)
    share, tied = 1.0 - quantile if quantile is not None else 0.0, 0.0
    if threshold.interval is not None:
        share = min(share, 1.0 - threshold.interval[0])  # less where many entries equal t
    if quantile is None or ties:
        sample = sample or draw_sample(pair.grid, SAMPLE_QUANTILE, seed)
        above = sample.share_above(threshold.number)
        tied = sample.share_above(threshold.number - 1) - above if ties else 0.0
        share = max(share, above + tied)
    return Share(share, tied)


def _listed(length: int, rows: int) -> int:
    """Candidates for the hardest of all rows and columns."""
    return 2 * rows * likely_candidates(length, rows) if length else 0


def check_forecast(pair: PairedRows, expected: Forecast, settings: PlanSettings) -> None:
    """Raises BadInput before any long work when the edges or the memory are more than allowed."""
    if settings.work.max_edges is not None and expected.entries > settings.work.max_edges:
        raise BadInput(
            f"--max-edges {settings.work.max_edges:,}: about {expected.entries:,} entries lie above the threshold; "
            f"{_tied_advice(expected) or _fitting(pair, expected, settings, _Room(settings.work.max_edges, 1, 1))}"
        )
    limit = memory_limit(pair, settings.work.max_memory)
    if expected.memory > limit:
        raise BadInput(
            f"--max-memory {show_size(limit)}: the plan would need about {show_size(expected.memory)} "
            f"({expected.entries:,} entries above the threshold); "
            f"{_advice(pair, expected, settings, limit)}"
        )


def entry_limit(pair: PairedRows, expected: Forecast, settings: PlanSettings) -> EntryLimit | None:
    """What the pass may find on this machine before it is stopped: what fits, or more than a sample errs."""
    if expected.entry_bytes == 0:
        return None
    most = max(expected.entries_within(memory_limit(pair, settings.work.max_memory)), 2 * expected.entries + pair.rows)
    return EntryLimit(most, "use a higher --quantile, or leave out rows that are equal or nearly so")


def memory_limit(pair: PairedRows, max_memory: int | None) -> int:
    """The bytes that may be used, those of the embeddings included: as asked, or most of what is free."""
    return max_memory or int(SHARE_TO_USE * available_memory() + 2 * pair.rows * pair.dim * 4)


def _tied_advice(expected: Forecast) -> str | None:
    if 2 * expected.tied <= expected.entries:
        return None
    return (
        f"{expected.tied:,} of them equal it, as products of equal rows do, and no --quantile parts them; leave out "
        "equal rows, or leave out --fn-margin"
    )


def _advice(pair: PairedRows, expected: Forecast, settings: PlanSettings, limit: int) -> str:
    tied = _tied_advice(expected)
    if tied is not None:
        return tied
    room = _Room(limit - expected.fixed, max(expected.entry_bytes, 1), BYTES_PER_LISTED)
    if room.size <= room.above * pair.rows:
        return "use fewer rows, or a machine with more memory"
    return _fitting(pair, expected, settings, room)


@dataclass(frozen=True)
class _Room:
    """`size` in entries or in bytes; `above`, `listed`: what an entry of either kind takes of it."""

    size: int
    above: int
    listed: int


def _fitting(pair: PairedRows, expected: Forecast, settings: PlanSettings, room: _Room) -> str:
    """Which options need no more room: a higher quantile, or shorter lists where these take it."""
    itself = int(settings.false_negatives.active)  # t is an entry too
    entries = (room.size - room.listed * expected.listed) // room.above - itself
    if not expected.listed or (expected.above and entries >= pair.rows):
        return f"{fitting_quantile(pair, entries)} would fit"
    kept = min(expected.above, room.size // 2 // room.above - itself)
    length = _longest_list(pair.rows, (room.size - (kept + itself) * room.above) // room.listed)
    advice = _shorter_lists(settings, length) if length else []
    if length and kept < expected.above:
        advice.append(fitting_quantile(pair, kept))
    return f"{' and '.join(advice)} would fit" if advice else "the lists of the hardest alone hold more; use fewer rows"


def _longest_list(rows: int, entries: int) -> int:
    """The greatest length whose candidates are so many or fewer; 0 where none is."""
    return bisect_right(range(rows), entries, lo=1, key=lambda length: _listed(length, rows)) - 1


def _shorter_lists(settings: PlanSettings, length: int) -> list[str]:
    """The options that ask for lists longer than that, with what to give instead."""
    graph, found = settings.graph, []
    if graph.rank_window is not None:
        if sum(graph.rank_window) > length:
            found.append(f"--rank-window P:M with P + M = {length}")
    elif graph.graph == "top-m" and graph.top > length:
        found.append(f"--top {length}")
    return found


def fitting_quantile(pair: PairedRows, entries: int) -> str:
    """The --quantile that leaves so many entries above it."""
    # In integers, with two digits of the share above however small it is, and that rounded down.
    digits = max(7, len(str(pair.rows**2 // entries)) + 2)
    above = entries * 10**digits // pair.rows**2
    quantile = f"0.{10**digits - above:0{digits}d}".rstrip("0")
    return f"--quantile {quantile} (about {entries / pair.rows:.3g} a row)"


def describe(expected: Forecast) -> str:
    """The forecast as one line."""
    return (
        f"expecting about {expected.entries:,} entries above the threshold and {show_size(expected.memory)} of memory"
    )


def stays_on_device(settings: PlanSettings, backend: Backend) -> bool:
    """Whether the graph can stay on a GPU from its edges to its order."""
    return (
        backend.name.startswith("cuda")
        and settings.method in ("rcm", "cm")
        and settings.graph.uses_threshold
        and lists_wanted(settings) == 0
        and not (settings.refine or settings.false_negatives.active)
    )
