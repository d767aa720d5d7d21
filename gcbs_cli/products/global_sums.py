"""One pass over X Yᵀ to everything a report needs of all N² pairs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.backend import Array, Backend, Entries, EntryLimits, Summariser, below
from gcbs_cli.products.canonical_values import canonical_values, settle
from gcbs_cli.products.edges import EdgeSearch, Exceedances, join
from gcbs_cli.products.entry_limit import EntryLimit
from gcbs_cli.products.hardest import HardestCollector, QueryValues, likely_thresholds
from gcbs_cli.products.numpy_backend import NumpyBackend
from gcbs_cli.products.suspects import SuspectPairs, SuspectRule, group_mates, pairs_of
from gcbs_cli.products.tile_sums import SideTileSums, TileSums
from gcbs_cli.products.tiles import Progress, Tile, cut, run_tiles, tiles_for

MOST_TAKEN = 0.9
"""Share of a row's sum that may be subtracted from it; beyond, rounding would decide what is left."""
ROWS_AT_ONCE = 256

LogSums = NDArray[np.float64]
"""(T, N): for each temperature and row, log Σ exp(s / temperature)."""


@dataclass(frozen=True)
class SideSums:
    """What the rows of one side see of all keys.

    log_sums: (T, N) over all keys; masked_log_sums: (T, N) without suspected false negatives; hardest: (N, K) float32,
    the largest similarities to keys that are not the row's own positive, falling, −inf where there are fewer than K.
    """

    log_sums: LogSums
    masked_log_sums: LogSums
    hardest: NDArray[np.float32]


@dataclass(frozen=True)
class GlobalSums:
    """Both directions of X Yᵀ, its entries at or above the threshold, and the suspected pairs among them."""

    x: SideSums
    y: SideSums
    exceedances: Exceedances
    suspects: SuspectPairs


def global_sums(
    pair: PairedRows,
    temperatures: Sequence[float],
    threshold: float,
    rule: SuspectRule,
    hardest: int,
    backend: Backend,
    *,
    seed: int = 0,
    tile_rows: int | None = None,
    progress: Progress | None = None,
    limit: EntryLimit | None = None,
) -> GlobalSums:
    """Sums, hardest negatives and exceedances of both directions in one pass; float32 products, float64 sums.

    `hardest`: K, how many of each row's hardest negatives are kept; `limit`: how many entries there is room for.
    Memory: the exceedances, `likely_candidates` a row and direction, and the scratch of the tiles.
    """
    sums_of_tile, tiles = tile_work(pair, temperatures, threshold, rule, hardest, backend, seed, tile_rows)
    unmasked = np.full((2, len(temperatures), pair.rows), -np.inf)
    collectors = HardestCollector(pair.x, pair.y, hardest), HardestCollector(pair.y, pair.x, hardest)
    parts: list[Exceedances] = []
    masks: list[NDArray[np.bool_]] = []
    for tile, sums in run_tiles(backend, tiles, sums_of_tile, progress):
        for number in range(len(temperatures)):
            _add(unmasked[0, number, tile.rows], sums.rows[number])
            _add(unmasked[1, number, tile.cols], sums.cols[number])
        collectors[0].add(sums.hard_rows)
        collectors[1].add(sums.hard_cols)
        parts.append(sums.found)
        masks.append(sums.masked)
        if limit is not None:
            limit.add(len(sums.masked) + len(sums.hard_rows.queries) + len(sums.hard_cols.queries))
    found, masked = join(parts, threshold), np.concatenate(masks)
    return _assemble(pair, temperatures, rule, unmasked, collectors, found, masked)


def tile_work(
    pair: PairedRows,
    temperatures: Sequence[float],
    threshold: float,
    rule: SuspectRule,
    hardest: int,
    backend: Backend,
    seed: int,
    tile_rows: int | None,
) -> tuple[Callable[[Tile], TileSums], list[Tile]]:
    """What is done with each tile, and the tiles: by the backend's kernel where it has one, else by products."""
    x, y = backend.load(pair.x), backend.load(pair.y)
    row_limits = likely_thresholds(pair.x, pair.y, hardest, backend, seed)
    col_limits = likely_thresholds(pair.y, pair.x, hardest, backend, seed + 1)
    error, scales = backend.error(pair.dim), [1.0 / temperature for temperature in temperatures]
    limits = EntryLimits(below(threshold, error), row_limits, col_limits, _surely_below(rule.own_limits(), error))
    summarise = backend.summariser(x, y, limits, scales)
    search = EdgeSearch(pair, threshold, backend)

    def from_products(tile: Tile) -> TileSums:
        product = backend.product(x, y, tile.rows, tile.cols)
        found = search.of_product(product, tile)
        masked = rule.meets(pair, found, error)
        hard_rows = _by_row(_others(backend.above(product, row_limits[tile.rows, None]), tile))
        hard_cols = _by_col(_others(backend.above(product, col_limits[None, tile.cols]), tile))
        backend.remove(product, found.rows[masked] - tile.rows.start, found.cols[masked] - tile.cols.start)
        sums = [backend.log_sums(product, scale, columns=True) for scale in scales]
        return TileSums([s[0] for s in sums], [s[1] for s in sums], found, masked, hard_rows, hard_cols)  # type: ignore[misc]

    if summarise is None or search.in_double:
        return from_products, tiles_for(backend, pair.rows, pair.rows, tile_rows)
    fused = _FusedWork(pair, threshold, rule, error, limits, scales, summarise)
    tiles = cut(pair.rows, pair.rows, tile_rows or summarise.tile_rows, summarise.tile_cols)
    return fused, tiles


def _surely_below(limits: NDArray[np.float64], error: float) -> NDArray[np.float32]:
    """float32 numbers below every fast product of an entry that is truly at or above these limits."""
    return np.nextafter((limits - error).astype(np.float32), np.float32(-np.inf))


@dataclass(frozen=True)
class _FusedWork:
    """Makes of a summary what products would have given: the kernel leaves out what may be suspected, and here what is
    not suspected after all is put back.
    """

    pair: PairedRows
    threshold: float
    rule: SuspectRule
    error: float
    limits: EntryLimits
    scales: list[float]
    summarise: Summariser

    def __call__(self, tile: Tile) -> TileSums:
        """Sums and entries of a tile."""
        summary = self.summarise(tile)
        local = summary.entries
        entries = Entries(local.rows + tile.rows.start, local.cols + tile.cols.start, local.values)
        found, masked, is_masked = self._exceedances(entries)
        back = summary.left_out & ~is_masked
        values = local.values[back].astype(np.float64)
        ends = (summary.row_sums, local.rows[back]), (summary.col_sums, local.cols[back])
        rows, cols = (
            [add_entries(sums, places, values * s) for sums, s in zip(side, self.scales, strict=True)]
            for side, places in ends
        )
        apart = entries.rows != entries.cols
        hard_rows = apart & (entries.values > self.limits.rows[entries.rows])
        hard_cols = apart & (entries.values > self.limits.cols[entries.cols])
        hard = _by_row(entries.chosen(hard_rows)), _by_col(entries.chosen(hard_cols))
        return TileSums(rows, cols, found, masked, *hard)

    def _exceedances(self, entries: Entries) -> tuple[Exceedances, NDArray[np.bool_], NDArray[np.bool_]]:
        """The entries at or above t, which of these are masked, and which of all entries are."""
        places = np.flatnonzero(entries.values > np.float32(self.limits.threshold))
        near = entries.chosen(places)
        values = settle(self.pair, near.rows, near.cols, near.values, self.threshold, self.error)
        keep = values >= self.threshold
        found = Exceedances(
            self.threshold, near.rows[keep].astype(np.int32), near.cols[keep].astype(np.int32), values[keep]
        )
        masked = self.rule.meets(self.pair, found, self.error)
        is_masked = np.zeros(len(entries.rows), np.bool_)
        is_masked[places[keep][masked]] = True
        return found, masked, is_masked


def _by_row(entries: Entries) -> QueryValues:
    return QueryValues(entries.rows.astype(np.int32), entries.values)


def _by_col(entries: Entries) -> QueryValues:
    return QueryValues(entries.cols.astype(np.int32), entries.values)


def _add(total: NDArray[np.float64], more: NDArray[np.float64]) -> None:
    np.logaddexp(total, more, out=total)


def _others(found: Entries, tile: Tile) -> Entries:
    """Entries with the indices of the whole matrix, own positives left out."""
    rows, cols = found.rows + tile.rows.start, found.cols + tile.cols.start
    return Entries(rows, cols, found.values).chosen(rows != cols)


def _assemble(
    pair: PairedRows,
    temperatures: Sequence[float],
    rule: SuspectRule,
    unmasked: NDArray[np.float64],
    collectors: tuple[HardestCollector, HardestCollector],
    found: Exceedances,
    masked: NDArray[np.bool_],
) -> GlobalSums:
    """Put the removed entries back for the plain sums, and take their partners out of the masked ones."""
    rows, cols, values = found.rows[masked], found.cols[masked], found.values[masked]
    suspects = pairs_of(rows, cols, pair.rows)
    if rule.groups is not None:
        mates = group_mates(rule.groups)
        suspects = pairs_of(
            np.concatenate([suspects.lower, mates.lower]), np.concatenate([suspects.higher, mates.higher]), pair.rows
        )
    other_rows, other_cols = _partners(rows, cols, suspects, pair.rows)
    other_values = canonical_values(pair, other_rows, other_cols)
    lookup = SuspectLookup(suspects, pair.rows)
    views = (pair.x, pair.y, rows, other_rows), (pair.y, pair.x, cols, other_cols)
    sides = []
    for side, (queries, keys, own, partner) in enumerate(views):
        scaled = [1.0 / temperature for temperature in temperatures]
        plain = np.stack([add_entries(unmasked[side, n], own, values * s) for n, s in enumerate(scaled)])
        left = [_without_entries(unmasked[side, n], partner, other_values * s) for n, s in enumerate(scaled)]
        without = np.stack([sums for sums, _ in left])
        unsure = np.flatnonzero(np.any([lost for _, lost in left], axis=0))
        without[:, unsure] = _sums_in_full(queries, keys, unsure, lookup, scaled)
        np.maximum(without, np.multiply.outer(scaled, rule.diagonal), out=without)  # the positive always stays
        sides.append(SideSums(plain, without, collectors[side].finish()))
    return GlobalSums(sides[0], sides[1], found, suspects)


def _partners(
    rows: NDArray[np.int32], cols: NDArray[np.int32], suspects: SuspectPairs, count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Directed entries of suspected pairs that were not suspicious by their own value, so still in the sums."""
    all_rows, all_cols = suspects.both_ways()
    wanted = all_rows.astype(np.int64) * count + all_cols
    missing = np.setdiff1d(wanted, rows.astype(np.int64) * count + cols, assume_unique=True)
    return np.divmod(missing, count)


def add_entries(
    log_sums: NDArray[np.float64], rows: NDArray[np.integer], exponents: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(N,) log(e^log_sums + Σ e^exponents of that row)."""
    shift = log_sums.copy()
    np.maximum.at(shift, rows, exponents)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    added = np.bincount(rows, np.exp(exponents - shift[rows]), minlength=len(log_sums))
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(log_sums - shift) + added)


def _without_entries(
    log_sums: NDArray[np.float64], rows: NDArray[np.integer], exponents: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(N,) log(e^log_sums − Σ e^exponents of that row), and (N,) where so much was taken that this is not known."""
    taken = np.bincount(rows, np.exp(exponents - log_sums[rows]), minlength=len(log_sums))
    return log_sums + np.log1p(-np.minimum(taken, MOST_TAKEN)), taken > MOST_TAKEN


def _sums_in_full(
    queries: NDArray[np.float32],
    keys: NDArray[np.float32],
    rows: NDArray[np.int64],
    lookup: "SuspectLookup",
    inverse_temperatures: Sequence[float],
) -> NDArray[np.float64]:
    """(T, n) log-sum-exp of these rows over the keys that are not suspected, from their products alone."""
    sums = np.empty((len(inverse_temperatures), len(rows)))
    backend = NumpyBackend(workers=1)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = rows[start : start + ROWS_AT_ONCE]
        table = queries[some] @ keys.T
        table[lookup.columns_of(some)] = -np.inf
        for number, scale in enumerate(inverse_temperatures):
            sums[number, start : start + len(some)] = backend.log_sums(table, scale, columns=False)[0]
    return sums


def self_sums(
    side: NDArray[np.float32],
    temperatures: Sequence[float],
    suspects: SuspectPairs,
    hardest: int,
    backend: Backend,
    *,
    seed: int = 0,
    tile_rows: int | None = None,
    progress: Progress | None = None,
) -> SideSums:
    """The same sums over S Sᵀ without its diagonal, for losses in which a view meets the views of its own side."""
    count = len(side)
    loaded = backend.load(side)
    limits = likely_thresholds(side, side, hardest, backend, seed)[:, None]
    lookup = SuspectLookup(suspects, count)

    def work(tile: Tile) -> SideTileSums:
        product = backend.product(loaded, loaded, tile.rows, tile.cols)
        hard = _others(backend.above(product, limits[tile.rows]), tile)
        removed = remove_own(backend, product, tile, lookup)
        sums = [backend.log_sums(product, 1.0 / temperature, columns=False)[0] for temperature in temperatures]
        return SideTileSums(sums, _by_row(hard), _by_row(removed))

    unmasked = np.full((len(temperatures), count), -np.inf)
    collector = HardestCollector(side, side, hardest)
    removed: list[QueryValues] = []
    for tile, sums in run_tiles(backend, tiles_for(backend, count, count, tile_rows), work, progress):
        for number, part in enumerate(sums.rows):
            _add(unmasked[number, tile.rows], part)
        collector.add(sums.hard)
        removed.append(sums.removed)
    rows = np.concatenate([entries.queries for entries in removed])
    values = np.concatenate([entries.values for entries in removed]).astype(np.float64)
    plain = np.stack([add_entries(unmasked[n], rows, values / t) for n, t in enumerate(temperatures)])
    return SideSums(plain, unmasked, collector.finish())


class SuspectLookup:
    """Suspected pairs as a CSR, to find those of a tile."""

    def __init__(self, suspects: SuspectPairs, count: int) -> None:
        rows, cols = suspects.both_ways()
        order = np.argsort(rows, kind="stable")
        self._rows, self._cols = rows[order], cols[order]
        self._starts = np.searchsorted(self._rows, np.arange(count + 1))

    def columns_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Place in `rows` and column of every suspected entry of these rows."""
        counts = self._starts[rows + 1] - self._starts[rows]
        places = np.repeat(np.arange(len(rows)), counts)
        within = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
        return places, self._cols[self._starts[rows][places] + within].astype(np.int64)

    def of(self, tile: Tile) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column, within the tile, of every suspected entry."""
        part = slice(self._starts[tile.rows.start], self._starts[tile.rows.stop])
        rows, cols = self._rows[part].astype(np.int64), self._cols[part].astype(np.int64)
        inside = (cols >= tile.cols.start) & (cols < tile.cols.stop)
        return rows[inside] - tile.rows.start, cols[inside] - tile.cols.start


def remove_own(backend: Backend, product: Array, tile: Tile, lookup: SuspectLookup) -> Entries:
    """Take the diagonal and the suspected entries out of the tile; returns the latter with their row in the matrix."""
    rows, cols = lookup.of(tile)
    values = backend.take(product, rows, cols)
    own = np.arange(max(tile.rows.start, tile.cols.start), min(tile.rows.stop, tile.cols.stop))
    backend.remove(
        product,
        np.concatenate([rows, own - tile.rows.start]),
        np.concatenate([cols, own - tile.cols.start]),
    )
    return Entries(rows + tile.rows.start, cols, values)
