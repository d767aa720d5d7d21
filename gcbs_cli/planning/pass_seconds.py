"""How long a pass will take, from its own work on rows from everywhere."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.backend import Array, Backend, LimitedRows
from gcbs_cli.products.edges import EdgeSearch, repeated_rows_of
from gcbs_cli.products.global_sums import tile_work
from gcbs_cli.products.hardest import likely_candidates, sample_rank
from gcbs_cli.products.hardest_keys import HardestKeys, full_rows_at_once
from gcbs_cli.products.spread_rows import spread_places, spread_rows
from gcbs_cli.products.suspects import SuspectRule
from gcbs_cli.products.tiles import DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS, Tile, run_tiles
from gcbs_cli.system.limits import available_cpus

TRIAL_ROWS, TRIAL_COLS = DEFAULT_TILE_ROWS // 2, DEFAULT_TILE_COLS
TRIALS = 3
FULL_ROWS = 32
LONG_TRIAL_SECONDS = 0.2
"""A trial that lasts longer is made once."""


def seconds_of_edges(pair: PairedRows, threshold: float | None, backend: Backend, *, ties: bool = True) -> float:
    """Of `find_exceedances`, by products of bytes, of float32 or of float64, whichever it will use."""
    if threshold is None:
        return 0.0
    repeated = repeated_rows_of(EdgeSearch(pair, threshold, backend, ties=ties))
    whole = pair if repeated is None else repeated.pair
    trial, entries = _trial(whole), len(whole.x) * len(whole.y)
    work = EdgeSearch(trial, threshold, backend, ties=ties, trial_of=entries).of_tiles()
    return _seconds_an_entry(backend, trial, work) * entries


def seconds_of_lists(
    pair: PairedRows, threshold: float | None, backend: Backend, *, top: int, ties: bool = True
) -> float:
    """Of `find_candidates` with lists of the hardest, those included that have to be made in full."""
    trial = _trial(pair)
    tiles = _seconds_an_entry(backend, trial, _list_work(trial, threshold, backend, pair.rows, top, ties=ties))
    return tiles * pair.rows**2 + sum(_seconds_a_query(pair, side, top, backend) for side in range(2)) * pair.rows


def seconds_of_sums(
    pair: PairedRows, threshold: float, temperatures: Sequence[float], margin: float, backend: Backend, *, hardest: int
) -> float:
    """Of `global_sums` with so many of the hardest a row."""
    trial = PairedRows(spread_rows(pair.x, TRIAL_ROWS), spread_rows(pair.y, TRIAL_ROWS))
    rule = SuspectRule(margin, trial.diagonal())
    work, _ = tile_work(trial, temperatures, threshold, rule, 1, backend, 0, None)
    sampling = sum(_seconds_of_limit(HardestKeys(pair, side, hardest, 0.0), backend) for side in range(2))
    return _seconds_an_entry(backend, trial, work) * pair.rows**2 + sampling * pair.rows


def _list_work(
    trial: PairedRows, threshold: float | None, backend: Backend, rows: int, top: int, *, ties: bool
) -> Callable[[Tile], Any]:
    """What `find_candidates` does with a tile, with limits that let as large a share of it through."""
    x, y = backend.load(trial.x), backend.load(trial.y)
    search = None if threshold is None else EdgeSearch(trial, threshold, backend, ties=ties)

    def likely(left: Array, right: Array, queries: int, keys: int) -> NDArray[np.float32]:
        rank = max(1, likely_candidates(top, rows) * keys // rows)
        product = backend.product(left, right, slice(0, queries), slice(0, keys))
        return backend.row_threshold(product, min(rank, keys))

    with backend.running():
        row_limits = likely(x, y, len(trial.x), len(trial.y))
        col_limits = likely(y, x, len(trial.y), len(trial.x))
    if search is not None and not search.in_double:
        row_limits = np.minimum(row_limits, np.float32(search.limit))
    listed = backend.lister(LimitedRows(trial.x, trial.y, row_limits, col_limits), trial_of=rows**2)

    def work(tile: Tile) -> None:
        if listed is not None:
            by_row, _ = listed(tile)
            if search is not None:
                search.of_entries(by_row, tile)
            return
        product = backend.product(x, y, tile.rows, tile.cols)
        if search is not None:
            search.of_product(product, tile)
        backend.above(product, row_limits[:, None])
        backend.above(product, col_limits[None, :])

    return work


def _seconds_a_query(pair: PairedRows, side: int, top: int, backend: Backend) -> float:
    """For a query's likely threshold, and for its list in full where some queries will need that."""
    top = min(top, pair.rows - 1)
    keys = HardestKeys(pair, side, top, backend.error(pair.dim))
    sampling = _seconds_of_limit(keys, backend)
    places = spread_places(pair.rows, FULL_ROWS)
    falling = -np.sort(-(keys.queries[places] @ keys.keys.T), axis=1)
    limit = falling[:, min(likely_candidates(top, pair.rows), pair.rows) - 1]
    share = float((falling[:, top - 1] <= limit + 2.0 * keys.error).mean())
    if share == 0.0:
        return sampling
    places = spread_places(pair.rows, full_rows_at_once(pair.rows) * available_cpus())
    began = time.perf_counter()
    keys.in_full(places)
    return sampling + share * (time.perf_counter() - began) / len(places)


def _seconds_of_limit(keys: HardestKeys, backend: Backend) -> float:
    """For the likely threshold of one query."""
    size, rank = sample_rank(keys.top, len(keys.keys))
    if 2 * rank > size:
        return 0.0
    sample = PairedRows(spread_rows(keys.queries, TRIAL_ROWS), spread_rows(keys.keys, size))
    x, y = backend.load(sample.x), backend.load(sample.y)

    def work(tile: Tile) -> None:
        backend.row_threshold(backend.product(x, y, tile.rows, tile.cols), rank)

    return _seconds_an_entry(backend, sample, work) * size


def _seconds_an_entry(backend: Backend, trial: PairedRows, work: Callable[[Tile], Any]) -> float:
    """With all workers busy, each on the same tile; without the first time, when memory is taken."""
    tile = Tile(slice(0, len(trial.x)), slice(0, len(trial.y)))
    seconds: list[float] = []
    while len(seconds) <= TRIALS and (len(seconds) < 2 or seconds[-1] < LONG_TRIAL_SECONDS):
        began = time.perf_counter()
        for _ in run_tiles(backend, [tile] * backend.workers, work):
            pass
        seconds.append(time.perf_counter() - began)
    return min(seconds[1:]) / backend.workers / tile.entries


def _trial(pair: PairedRows) -> PairedRows:
    """A tile's worth of rows of both sides, seldom those of one pair."""
    cols = (spread_places(len(pair.y), TRIAL_COLS) + 1) % len(pair.y)
    return PairedRows(spread_rows(pair.x, TRIAL_ROWS), pair.y[cols])
