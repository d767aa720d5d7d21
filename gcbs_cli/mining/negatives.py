"""Mine each row's hard negatives in one pass over X Yᵀ, and sum over all keys in another.

Hard Negative (1..l) is the baseline of GCBS (Sachidananda, Yang and Zhu, ICML 2023, section 4); which candidates are
refused follows `mine_hard_negatives` of sentence-transformers and NV-Retriever (Moreira et al., 2024).
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gcbs_cli.data.pairs import PairedRows, Positives, pair_values
from gcbs_cli.products.operations import Backend, ProgressCallback
from gcbs_cli.products.top_lists import lists_by_rows
from gcbs_cli.settings.mine import MineSettings, NegativeSettings
from gcbs_cli.system.arrays import Bools, Floats, Int32s, Ints

SPARE_KEYS = 8
SPARE_SHARE = 4
"""Eight keys and a quarter more are listed than are needed: rounded rows rank keys a little otherwise."""
COLUMNS = ("query", "negative", "score", "rank")


@dataclass(frozen=True)
class Negatives:
    """Lists of negatives, one line an entry, by query and then from hard to easy."""

    query: Ints
    """(M,) rows of x."""
    negative: Ints
    """(M,) rows of y."""
    score: Floats
    """(M,) their similarities."""
    rank: Int32s
    """(M,) 1 for the hardest key that is no positive of the query."""
    skipped: dict[str, int]
    """Candidates refused, by reason."""


def mine_negatives(
    pairs: PairedRows,
    positives: Positives,
    settings: MineSettings,
    backend: Backend,
    progress: ProgressCallback | None = None,
) -> Negatives:
    """The negatives of every row of x among the rows of y, the same on every device and for every size of tile.

    Memory: the embeddings, 28 bytes a negative, and the tiles under way.
    """
    last_rank = settings.last_rank(positives.most)
    width = last_rank + positives.most
    lists = lists_by_rows(
        pairs.grid,
        keys_listed(width),
        backend,
        seed=settings.seed,
        skip_own=False,
        progress=progress,
    )
    parts = []
    skipped = Counter[str]()
    generator = np.random.default_rng(settings.seed)
    for rows, listed in lists:
        queries = np.arange(rows.start, rows.stop)
        keys, scores = _hardest(pairs, queries, listed, width)
        others = positives.ids[keys] != positives.ids[queries][:, None]
        allowed = others.copy()
        for reason, refused in _refused(scores, positives.least_scores(pairs, queries)[:, None], settings):
            skipped[reason] += int(np.count_nonzero(allowed & refused))
            allowed &= ~refused
        place = np.cumsum(allowed, axis=1)
        chosen = allowed & (place > settings.range_min) & (place <= last_rank)
        if settings.sampling == "random":
            chosen = _drawn(chosen, settings.negatives, generator)
        else:
            chosen &= place <= settings.range_min + settings.negatives
        ranks = np.cumsum(others, axis=1)[chosen].astype(np.int32)
        parts.append((queries[np.nonzero(chosen)[0]], keys[chosen].astype(np.int64), scores[chosen], ranks))
    query, negative, score, rank = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Negatives(query, negative, score, rank, dict(skipped))


def keys_listed(width: int) -> int:
    """Keys of a row that are listed by their whole numbers, for so many by their similarities."""
    return width + width // SPARE_SHARE + SPARE_KEYS


def _hardest(pairs: PairedRows, queries: Ints, keys: Int32s, width: int) -> tuple[Int32s, Floats]:
    """(n, w) of the keys that the grid's numbers list, the hardest by the similarities themselves, and these."""
    scores = pair_values(pairs, np.repeat(queries, keys.shape[1]), keys.reshape(-1)).reshape(keys.shape)
    order = np.lexsort((keys, -scores), axis=1)[:, :width]
    return np.take_along_axis(keys, order, axis=1), np.take_along_axis(scores, order, axis=1)


def _refused(scores: Floats, positive: Floats, settings: NegativeSettings) -> Iterator[tuple[str, Bools]]:
    """(n, w) which candidates each reason refuses, in sentence-transformers' order; positive: (n, 1)."""
    if settings.absolute_margin is not None:
        yield "absolute_margin", scores + settings.absolute_margin > positive
    if settings.relative_margin is not None:
        yield "relative_margin", scores > positive - np.abs(positive) * settings.relative_margin
    if settings.max_score is not None:
        yield "max_score", scores > settings.max_score
    if settings.min_score is not None:
        yield "min_score", scores < settings.min_score


def _drawn(window: Bools, negatives: int, generator: np.random.Generator) -> Bools:
    """So many of each line's window, by a number for each of its places."""
    numbers = np.where(window, generator.random(window.shape), 1.0)
    last = min(negatives, window.shape[1]) - 1
    return window & (numbers <= np.partition(numbers, last, axis=1)[:, last : last + 1])
