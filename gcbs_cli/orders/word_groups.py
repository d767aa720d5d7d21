"""Put rows with the same word together, in small groups in random order.

Chernyavskiy et al., Batch-Softmax Contrastive Loss for Pairwise Sentence Scoring Tasks (NAACL 2022), algorithm 2. A
row's word is a random shingle of its text, its cluster, or one of its neighbours.
"""

import re
from collections.abc import Sequence

import numpy as np

from gcbs_cli.system.arrays import Int32s, Ints, ragged

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


def group_by_word(words: Ints, group_size: int, generator: np.random.Generator) -> Ints:
    """(N,) an order: rows with the same word in groups of at most `group_size`, the groups in random order.

    `words`: (N,) a number for each row. Which of a frequent word's rows share a group is random too.
    """
    rows = generator.permutation(len(words))
    by_word = rows[np.argsort(words[rows], kind="stable")]
    _, place = ragged(np.unique(words, return_counts=True)[1])
    group = np.cumsum(place % group_size == 0) - 1
    new_place = generator.permutation(group[-1] + 1)[group]
    return by_word[np.argsort(new_place, kind="stable")].astype(np.int64)


def text_words(text: str) -> list[str]:
    """The words of a text in lower case, without stop words."""
    return [word for word in WORD.findall(text.lower()) if word not in STOP_WORDS]


def text_shingles(
    texts: Sequence[str], length: int, generator: np.random.Generator, *, consecutive: bool = False
) -> Ints:
    """(N,) a number for a random shingle of each text: `length` of its words in any order, all where there are fewer.

    consecutive: words in a row. Numbers are in the order of the shingles; every text without words has a number of its
    own, the largest.
    """
    shingles = []
    for words in map(text_words, texts):
        start = int(generator.integers(max(1, len(words) - length + 1))) if consecutive else 0
        order = range(len(words)) if consecutive else generator.permutation(len(words))
        shingles.append(" ".join(sorted(words[place] for place in order[start : start + length])))
    distinct, inverse = np.unique(np.array(shingles, dtype=np.str_), return_inverse=True)
    numbers = inverse.reshape(-1).astype(np.int64)
    # Rows without words have no word in common.
    alone = np.flatnonzero(np.array([not shingle for shingle in shingles], np.bool_))
    numbers[alone] = len(distinct) + np.arange(len(alone))
    return numbers


def neighbour_shingles(neighbours: Int32s, length: int, generator: np.random.Generator) -> Ints:
    """(N,) a number for a random shingle of each row: a subset of `length` of the ids of itself and its neighbours."""
    lists = np.concatenate([np.arange(len(neighbours), dtype=np.int32)[:, None], neighbours], axis=1)
    chosen = generator.permuted(lists, axis=1)[:, :length]
    return np.unique(np.sort(chosen, axis=1), axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
