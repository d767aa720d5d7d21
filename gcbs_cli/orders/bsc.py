"""The shuffling methods of the batch-softmax contrastive loss (Chernyavskiy et al., NAACL 2022) as planners."""

import numpy as np

from gcbs_cli.data.grid import make_grid
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.orders.given import PlannerInput
from gcbs_cli.orders.knn_groups import plan_knn_groups
from gcbs_cli.orders.word_groups import group_by_word, neighbour_shingles, text_shingles
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.products.top_lists import lists_by_rows
from gcbs_cli.products.whole_numbers import k_means, whole
from gcbs_cli.system.arrays import Float32s, Int32s, Ints, equal_rows
from gcbs_cli.system.errors import BadInput


def knn_groups(given: PlannerInput) -> Ints:
    """Algorithm 1: groups of a row and its nearest free neighbours."""
    settings = given.settings
    side = compared_rows(given.pair, settings.bsc_by)
    neighbours = _neighbours(given, side, settings.neighbours_for("knn-groups"))
    contents = equal_rows(side)[1] if settings.bsc_skip_identical else None
    return plan_knn_groups(neighbours, settings.bsc_group_size, _generator(given), contents)


def words(given: PlannerInput) -> Ints:
    """Algorithm 2: groups of rows that share a random shingle of their texts. Raises BadInput without texts."""
    settings = given.settings
    texts = given.inputs.get("texts")
    if texts is None:
        raise BadInput("--method words: expected the rows' texts; give them with --text FILE")
    generator, consecutive = _generator(given), settings.bsc_shingle == "consecutive"
    found = text_shingles(texts, settings.bsc_words, generator, consecutive=consecutive)
    return group_by_word(found, settings.bsc_group_size, generator)


def clusters(given: PlannerInput) -> Ints:
    """Algorithm 2 with the row's k-means cluster as its word."""
    settings = given.settings
    side, generator = compared_rows(given.pair, settings.bsc_by), _generator(given)
    count = settings.clusters_for(given.pair.rows, given.batch_size)
    found, _ = k_means(whole(side), count, generator)
    return group_by_word(found, settings.bsc_group_size, generator)


def neighbours(given: PlannerInput) -> Ints:
    """Algorithm 2 with the ids of the row's nearest neighbours as its words."""
    settings = given.settings
    side, generator = compared_rows(given.pair, settings.bsc_by), _generator(given)
    nearest = _neighbours(given, side, settings.neighbours_for("neighbours"))
    found = neighbour_shingles(nearest, settings.bsc_words, generator)
    return group_by_word(found, settings.bsc_group_size, generator)


def compared_rows(pair: PairedRows, by: str) -> Float32s:
    """Unit rows whose products say how near two pairs are: x, y, or both, whose product is the mean of both sides'."""
    if by == "both":
        return np.concatenate([pair.x, pair.y], axis=1) * np.float32(np.sqrt(0.5))
    return pair.x if by == "x" else pair.y


def _neighbours(given: PlannerInput, side: Float32s, count: int) -> Int32s:
    lists = lists_by_rows(make_grid(side, side), count, given.backend or CpuBackend(), seed=given.settings.seed)
    return np.concatenate([found for _, found in lists])


def _generator(given: PlannerInput) -> np.random.Generator:
    return np.random.default_rng([given.settings.seed, 0xB5C])
