"""Mine each row's hard negatives in one pass over X Yᵀ, and sum over all keys in another.

Hard Negative (1..l) is the baseline of GCBS (Sachidananda, Yang and Zhu, ICML 2023, section 4); which candidates are
refused follows `mine_hard_negatives` of sentence-transformers and NV-Retriever (Moreira et al., 2024).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows, pair_values
from gcbs_cli.data.positives import Positives
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.sums import loss_sums
from gcbs_cli.products.top_lists import lists_by_rows
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.system.progress import Progress

SPARE_KEYS, SPARE_SHARE = 8, 4
"""So many keys, and a quarter of those wanted, are listed beside these: rounded rows rank keys a little otherwise."""
COLUMNS = ("query", "negative", "score", "rank")


@dataclass(frozen=True)
class Negatives:
    """Lists of negatives, one line an entry, by query and then from hard to easy."""

    query: NDArray[np.int64]
    """(M,) rows of x."""
    negative: NDArray[np.int64]
    """(M,) rows of y."""
    score: NDArray[np.float64]
    """(M,) their similarities."""
    rank: NDArray[np.int32]
    """(M,) 1 for the hardest key that is no positive of the query."""
    skipped: dict[str, int]
    """Candidates refused, by reason."""
    log_sums: NDArray[np.float64]
    """(N,) log Σ_j exp(s_ij / temperature)."""

    def table(self, rows: int, width: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(N, width) negatives, −1 where there are fewer, and their scores, −inf there."""
        counts = np.bincount(self.query, minlength=rows)
        filled = np.arange(width) < counts[:, None]
        keys, scores = np.full(filled.shape, -1, np.int64), np.full(filled.shape, -np.inf)
        keys[filled], scores[filled] = self.negative, self.score
        return keys, scores


def mine_negatives(
    pair: PairedRows, positives: Positives, settings: MineSettings, backend: Backend, watcher: Progress | None = None
) -> Negatives:
    """The negatives of every row of x among the rows of y, the same on every device and for every size of tile.

    Memory: the embeddings, 28 bytes a negative, and the tiles under way.
    """
    width = settings.choice.last_rank(positives.most) + positives.most
    lists = lists_by_rows(
        pair.grid,
        keys_listed(width),
        backend,
        seed=settings.seed,
        skip_own=False,
        tile_rows=settings.work.chunk_rows,
        progress=watcher.progress if watcher else None,
    )
    found = [_of_rows(pair, positives, settings, rows, keys.indices, width) for rows, keys in lists]
    rows = settings.work.chunk_rows
    sums, _ = loss_sums(pair.x, pair.y, [settings.loss.temperature], backend, columns=False, tile_rows=rows)
    return _joined(found, sums.log_sums[0])


def keys_listed(width: int) -> int:
    """Keys of a row that are listed by their whole numbers, for so many by their similarities."""
    return width + width // SPARE_SHARE + SPARE_KEYS


def _of_rows(
    pair: PairedRows, positives: Positives, settings: MineSettings, rows: slice, keys: NDArray[np.int32], width: int
) -> Negatives:
    """Of some rows, from their hardest keys by the numbers of the grid: the similarities themselves rank them."""
    queries, last_rank = np.arange(rows.start, rows.stop), settings.choice.last_rank(positives.most)
    scores = pair_values(pair, np.repeat(queries, keys.shape[1]).astype(np.int32), keys.reshape(-1)).reshape(keys.shape)
    order = np.lexsort((keys, -scores), axis=1)[:, :width]
    keys, scores = np.take_along_axis(keys, order, axis=1), np.take_along_axis(scores, order, axis=1)
    others = positives.ids[keys] != positives.ids[queries][:, None]
    allowed, skipped = _allowed(pair, positives, settings, queries, scores, others)
    place = np.cumsum(allowed, axis=1)
    window = allowed & (place > settings.choice.range_min) & (place <= last_rank)
    if settings.choice.sampling == "random":
        chosen = _drawn(window, queries, keys, settings)
    else:
        chosen = window & (place <= settings.choice.range_min + settings.choice.negatives)
    lines, places = np.nonzero(chosen)
    return Negatives(
        queries[lines],
        keys[lines, places].astype(np.int64),
        scores[lines, places],
        np.cumsum(others, axis=1)[lines, places].astype(np.int32),
        skipped,
        np.empty(0),
    )


def _allowed(
    pair: PairedRows,
    positives: Positives,
    settings: MineSettings,
    queries: NDArray[np.int64],
    scores: NDArray[np.float64],
    others: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """(n, w) which candidates no score refuses, and how many each reason refuses, in sentence-transformers' order."""
    limits: dict[str, NDArray[np.bool_]] = {}
    if settings.choice.absolute_margin is not None or settings.choice.relative_margin is not None:
        positive = positives.least_scores(pair, queries)[:, None]
        if settings.choice.absolute_margin is not None:
            limits["absolute_margin"] = scores + settings.choice.absolute_margin > positive
        if settings.choice.relative_margin is not None:
            limits["relative_margin"] = scores > positive - np.abs(positive) * settings.choice.relative_margin
    if settings.choice.max_score is not None:
        limits["max_score"] = scores > settings.choice.max_score
    if settings.choice.min_score is not None:
        limits["min_score"] = scores < settings.choice.min_score
    allowed, skipped = others.copy(), {}
    for reason, refused in limits.items():
        skipped[reason] = int(np.count_nonzero(allowed & refused))
        allowed &= ~refused
    return allowed, skipped


def _drawn(
    window: NDArray[np.bool_], queries: NDArray[np.int64], keys: NDArray[np.int32], settings: MineSettings
) -> NDArray[np.bool_]:
    """`negatives` of each line's window, drawn by numbers that depend on seed, query and key alone, on no strip."""
    numbers = _mixed(
        _mixed(np.uint64(settings.seed % 2**64) + queries.astype(np.uint64))[:, None] + keys.astype(np.uint64)
    )
    # The largest number stands for what may not be drawn: no key of a window loses by it but once in 2⁶⁴ times.
    numbers = np.where(window, numbers, np.iinfo(np.uint64).max)
    width = min(settings.choice.negatives, keys.shape[1])
    limit = np.partition(numbers, width - 1, axis=1)[:, width - 1 : width]
    return window & (numbers <= limit)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 (Steele, Lea and Flood, 2014): well-mixed bits of a counter."""
    with np.errstate(over="ignore"):
        z = numbers + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _joined(parts: list[Negatives], log_sums: NDArray[np.float64]) -> Negatives:
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    skipped = {reason: sum(part.skipped[reason] for part in parts) for reason in parts[0].skipped}
    return Negatives(**columns, skipped=skipped, log_sums=log_sums)
