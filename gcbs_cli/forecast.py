"""What a pass will find and need, told before it: entries, memory and time; and which settings would fit."""

import time
from dataclasses import dataclass

from gcbs_cli.errors import BadInput
from gcbs_cli.hard_pairs import lists_wanted
from gcbs_cli.memory import SHARE_TO_USE, available_memory, show_size
from gcbs_cli.settings import PlanSettings
from gcbs_cli.similarity.affinity import draw_affinity_sample
from gcbs_cli.similarity.backend import Backend
from gcbs_cli.similarity.canonical_values import UnitPair
from gcbs_cli.similarity.entry_limit import EntryLimit
from gcbs_cli.similarity.quantile_sample import draw_sample
from gcbs_cli.similarity.tiles import DEFAULT_TILE_COLS
from gcbs_cli.threshold import Threshold

BYTES_PER_EDGE = 72
"""Peak memory for one directed entry above the threshold: found, joined, sorted both ways, ordered (measured)."""
LISTED_PER_PLACE = 5
"""Entries that the pass holds for each place of the hardest lists of rows and columns: candidates beyond them."""
TRIAL_ROWS = 512


@dataclass(frozen=True)
class Forecast:
    """What the pass will find and need: directed entries above t, bytes at the peak, seconds of float32 products.

    `entry_bytes`: the part of `memory` that each entry takes: none of this machine's where the graph stays on a GPU;
    `listed`: the entries that the lists of the hardest hold, whatever the quantile;
    `tied`: how many of the entries equal t, where these are looked at too, for suspected pairs.
    """

    entries: int
    memory: int
    seconds: float
    entry_bytes: int = BYTES_PER_EDGE
    listed: int = 0
    tied: int = 0

    def entries_within(self, limit: int) -> int:
        """How many entries this much memory holds."""
        return (limit - (self.memory - self.entry_bytes * self.entries)) // max(self.entry_bytes, 1)


def forecast(
    pair: UnitPair,
    threshold: Threshold,
    settings: PlanSettings,
    backend: Backend,
    *,
    on_host: bool = False,
    lists: int | None = None,
) -> Forecast:
    """Edges, memory and time of the pass, from a sample and a timed product.

    `on_host`: the edges come to the host's memory even if a device could hold them; `lists`: how long the lists of the
    hardest are, by default as the settings need them.
    """
    quantile = settings.graph.requested_quantile(pair.rows)
    ties = settings.false_negatives.needs_threshold
    share, tied = 1.0 - quantile if quantile is not None else 0.0, 0.0
    if threshold.estimate is not None:
        share = min(share, 1.0 - threshold.estimate.low)  # less where many entries equal t
    if quantile is None or ties:
        draw = draw_affinity_sample if settings.graph.pairs == "all" else draw_sample
        sample = draw(pair, 0.999, settings.seed)
        above = sample.share_above(threshold.value)
        tied = sample.share_reaching(threshold.value) - above if ties else 0.0
        share = max(share, above + tied)
    entries = round(share * pair.rows**2) if settings.graph.uses_threshold or ties else 0
    listed = LISTED_PER_PLACE * (lists_wanted(settings) if lists is None else lists) * pair.rows
    entries += listed
    embeddings = 2 * pair.rows * pair.dim * 4
    scratch = backend.workers * DEFAULT_TILE_COLS * 1024 * 9
    entry_bytes = 0 if stays_on_device(settings, backend) and not on_host else BYTES_PER_EDGE
    memory = embeddings + scratch + entry_bytes * entries
    return Forecast(entries, memory, _pass_seconds(pair, backend), entry_bytes, listed, round(tied * pair.rows**2))


def _pass_seconds(pair: UnitPair, backend: Backend) -> float:
    """Seconds for all products at the rate of a small one (about a hundredth of a second)."""
    rows = min(pair.rows, TRIAL_ROWS)
    x, y = backend.load(pair.x[:rows]), backend.load(pair.y[:rows])
    part = slice(0, rows)
    with backend.running():
        backend.above(backend.product(x, y, part, part), 1.0)
        began = time.perf_counter()
        backend.above(backend.product(x, y, part, part), 1.0)
        seconds = time.perf_counter() - began
    return seconds * (pair.rows / rows) ** 2 / backend.workers


def check_forecast(pair: UnitPair, expected: Forecast, settings: PlanSettings) -> None:
    """Raises BadInput before any long work when the edges or the memory are more than allowed."""
    if settings.max_edges is not None and expected.entries > settings.max_edges:
        raise BadInput(
            f"--max-edges {settings.max_edges:,}: about {expected.entries:,} entries lie above the threshold; "
            f"{_tied_advice(expected) or _fitting(pair, expected, settings, settings.max_edges)}"
        )
    limit = _memory_limit(pair, settings)
    if expected.memory > limit:
        raise BadInput(
            f"--max-memory {show_size(limit)}: the plan would need about {show_size(expected.memory)} "
            f"({expected.entries:,} entries above the threshold); "
            f"{_advice(pair, expected, settings, expected.entries_within(limit))}"
        )


def entry_limit(pair: UnitPair, expected: Forecast, settings: PlanSettings) -> EntryLimit | None:
    """What the pass may find on this machine before it is stopped: what fits, or more than a sample errs."""
    if expected.entry_bytes == 0:
        return None
    most = max(expected.entries_within(_memory_limit(pair, settings)), 2 * expected.entries + pair.rows)
    return EntryLimit(most, "use a higher --quantile, or leave out rows that are equal or nearly so")


def _memory_limit(pair: UnitPair, settings: PlanSettings) -> int:
    return settings.max_memory or int(SHARE_TO_USE * available_memory() + 2 * pair.rows * pair.dim * 4)


def _tied_advice(expected: Forecast) -> str | None:
    if 2 * expected.tied <= expected.entries:
        return None
    return (
        f"{expected.tied:,} of them equal it, as products of equal rows do, and no --quantile parts them; leave out "
        "equal rows, or leave out --fn-margin and --fn-absolute"
    )


def _advice(pair: UnitPair, expected: Forecast, settings: PlanSettings, fits: int) -> str:
    tied = _tied_advice(expected)
    if tied is not None:
        return tied
    return (
        _fitting(pair, expected, settings, fits)
        if fits > pair.rows
        else "use fewer rows, or a machine with more memory"
    )


def _fitting(pair: UnitPair, expected: Forecast, settings: PlanSettings, fits: int) -> str:
    """Which options make `fits` entries or fewer: a higher quantile, or shorter lists where they take the room."""
    above, room = expected.entries - expected.listed, fits - expected.listed
    if not expected.listed or (above and room >= pair.rows):
        return f"{_fitting_quantile(pair, room)} would fit"
    kept = above if 2 * above <= fits else fits // 2
    length = (fits - kept) // (LISTED_PER_PLACE * pair.rows)
    advice = _shorter_lists(settings, length) if length else []
    if length and kept < above:
        advice.append(_fitting_quantile(pair, kept))
    return f"{' and '.join(advice)} would fit" if advice else "the lists of the hardest alone hold more; use fewer rows"


def _shorter_lists(settings: PlanSettings, length: int) -> list[str]:
    """The options that ask for lists longer than that, with what to give instead."""
    graph, found = settings.graph, []
    if graph.rank_window is not None:
        if sum(graph.rank_window) > length:
            found.append(f"--rank-window P:M with P + M = {length}")
    elif graph.kind == "top-m" and graph.top > length:
        found.append(f"--top {length}")
    if settings.false_negatives.top > length:
        found.append(f"--fn-top {length}")
    return found


def _fitting_quantile(pair: UnitPair, entries: int) -> str:
    # In integers, with two digits of the share above however small it is, and that rounded down.
    digits = max(7, len(str(pair.rows**2 // entries)) + 2)
    above = entries * 10**digits // pair.rows**2
    quantile = f"0.{10**digits - above:0{digits}d}".rstrip("0")
    return f"--quantile {quantile} (about {entries / pair.rows:.3g} a row)"


def describe(expected: Forecast) -> str:
    """The forecast as one line."""
    return (
        f"expecting about {expected.entries:,} entries above the threshold, "
        f"{show_size(expected.memory)} of memory and about {expected.seconds:.1f} s for the pass"
    )


def stays_on_device(settings: PlanSettings, backend: Backend) -> bool:
    """Whether the graph can stay on a GPU from its edges to its order."""
    return (
        backend.name.startswith("cuda")
        and settings.method in ("rcm", "cm")
        and settings.graph.uses_threshold
        and settings.graph.pairs == "xy"
        and lists_wanted(settings) == 0
        and not (settings.refine or settings.false_negatives.active)
    )
