"""The shufflings of batch-softmax contrast as planners.

Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022). Algorithm 1 puts
each row with its nearest neighbours that are still free; algorithm 2 puts rows with the same word together, in small
groups in random order, where a row's word is a random shingle of its text, its cluster, or one of its neighbours.
"""

import re
from collections.abc import Sequence

import numpy as np

from gcbs_cli.data.grid import make_grid
from gcbs_cli.orders.inputs import MethodInput
from gcbs_cli.orders.k_means import k_means, whole
from gcbs_cli.products.top_lists import lists_by_rows
from gcbs_cli.settings.plan import DEFAULT_NEIGHBOURS, MOST_CLUSTERS
from gcbs_cli.system.arrays import Array, Float32s, Int32s, Ints, equal_rows, group_numbers, ragged
from gcbs_cli.system.compiled import compiled
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.randomness import Stream

WORD = re.compile(r"\w+")
_STOP_WORDS = (
    "a about above after again against all also am an and any are as at be because been before being below between "
    "both but by can could did do does doing down during each few for from further had has have having he her here "
    "hers herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off "
    "on once only or other our ours ourselves out over own same she should so some such than that the their theirs "
    "them themselves then there these they this those through to too under until up very was we were what when where "
    "which while who whom why will with would you your yours yourself yourselves"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English function words, as in the usual lists."""


def knn_groups(inputs: MethodInput) -> Ints:
    """Algorithm 1: in random order, each free row and its nearest free neighbours.

    The rows that come last find no free neighbour, so the order is reversed: training begins with the easy groups of
    one.
    """
    settings = inputs.settings
    rows = inputs.pairs.rows
    contents = np.arange(rows)
    if settings.bsc_skip_identical:
        contents = equal_rows(compared_rows(inputs))[1]
    visits = _generator(inputs).permutation(rows)
    return _grouped(_neighbours(inputs, "knn-groups"), visits, contents, settings.bsc_group_size)[::-1].copy()


def words(inputs: MethodInput) -> Ints:
    """Algorithm 2 by a random shingle of each row's text. Raises BadInput without texts."""
    settings = inputs.settings
    generator = _generator(inputs)
    if inputs.texts is None:
        raise BadInput("--method words: expected the rows' texts; give them with --text FILE")
    consecutive = settings.bsc_shingle == "consecutive"
    shingles = text_shingles(inputs.texts, settings.bsc_words, generator, consecutive=consecutive)
    return group_by_word(shingles, settings.bsc_group_size, generator)


def clusters(inputs: MethodInput) -> Ints:
    """Algorithm 2 by each row's k-means cluster."""
    settings = inputs.settings
    generator = _generator(inputs)
    rows = inputs.pairs.rows
    count = settings.bsc_clusters or min(MOST_CLUSTERS, max(1, round(rows / inputs.batch_size)))
    cluster, _ = k_means(whole(compared_rows(inputs)), min(rows, count), generator)
    return group_by_word(cluster, settings.bsc_group_size, generator)


def neighbours(inputs: MethodInput) -> Ints:
    """Algorithm 2 by the ids of each row's nearest neighbours."""
    settings = inputs.settings
    generator = _generator(inputs)
    shingles = neighbour_shingles(_neighbours(inputs, "neighbours"), settings.bsc_words, generator)
    return group_by_word(shingles, settings.bsc_group_size, generator)


def compared_rows(inputs: MethodInput) -> Float32s:
    """Unit rows whose products say how near two pairs are: x, y, or both, whose product is the mean of both sides'."""
    pairs = inputs.pairs
    by = inputs.settings.bsc_by
    if by == "both":
        return np.concatenate([pairs.x, pairs.y], axis=1) * np.float32(np.sqrt(0.5))
    return pairs.x if by == "x" else pairs.y


def _neighbours(inputs: MethodInput, method: str) -> Int32s:
    """(N, n) the nearest other rows of each row, nearest first."""
    side = compared_rows(inputs)
    count = inputs.settings.bsc_neighbours or DEFAULT_NEIGHBOURS[method]
    tiles = lists_by_rows(make_grid(side, side), count, inputs.backend, seed=inputs.settings.seed)
    return np.concatenate([lists for _, lists in tiles])


def _generator(inputs: MethodInput) -> np.random.Generator:
    return Stream.SHUFFLING.generator(inputs.settings.seed)


@compiled
def _grouped(neighbours: Int32s, visits: Ints, contents: Ints, group_size: int) -> Ints:
    """(N,) an order of groups: each free row and its `group_size` − 1 nearest free neighbours.

    `neighbours`: (N, n) rows, nearest first; `contents`: (N,) a number for each row, neighbours with the row's own
    number are passed over.
    """
    order = np.empty(len(visits), np.int64)
    used = np.zeros(len(visits), np.bool_)
    stop = 0
    for row in visits:
        if used[row]:
            continue
        start = stop
        order[stop] = row
        used[row] = True
        stop += 1
        for other in neighbours[row]:
            if stop - start == group_size:
                break
            if not used[other] and contents[other] != contents[row]:
                order[stop] = other
                used[other] = True
                stop += 1
    return order


def group_by_word(words: Array, group_size: int, generator: np.random.Generator) -> Ints:
    """(N,) an order: rows with the same word in groups of at most `group_size`, the groups in random order.

    `words`: (N,) a number for each row. Which of a frequent word's rows share a group is random too.
    """
    rows = generator.permutation(len(words))
    by_word = rows[np.argsort(words[rows], kind="stable")]
    _, place = ragged(np.unique(words, return_counts=True)[1])
    group = np.cumsum(place % group_size == 0) - 1
    new_place = generator.permutation(group[-1] + 1)[group]
    return by_word[np.argsort(new_place, kind="stable")]


def text_words(text: str) -> list[str]:
    """The words of a text in lower case, without stop words."""
    return [word for word in WORD.findall(text.lower()) if word not in STOP_WORDS]


def text_shingles(
    texts: Sequence[str], length: int, generator: np.random.Generator, *, consecutive: bool = False
) -> Int32s:
    """(N,) a number for a random shingle of each text: `length` of its words in any order, all where there are fewer.

    consecutive: words in a row. Numbers are in the order of the shingles; every text without words has a number of its
    own, the largest.
    """
    shingles = []
    for words in map(text_words, texts):
        if consecutive:
            start = int(generator.integers(max(1, len(words) - length + 1)))
            shingle = words[start : start + length]
        else:
            shingle = [words[place] for place in generator.permutation(len(words))[:length]]
        shingles.append(" ".join(sorted(shingle)))
    numbers = np.unique(shingles, return_inverse=True)[1]
    # Texts without words have no word in common.
    return group_numbers(np.where(np.array(shingles) == "", -1, numbers))


def neighbour_shingles(neighbours: Int32s, length: int, generator: np.random.Generator) -> Array:
    """(N,) a number for a random shingle of each row: a subset of `length` of the ids of itself and its neighbours."""
    lists = np.concatenate([np.arange(len(neighbours), dtype=np.int32)[:, None], neighbours], axis=1)
    shingles = generator.permuted(lists, axis=1)[:, :length]
    return np.unique(np.sort(shingles, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
