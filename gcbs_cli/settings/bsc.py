"""The options of the batch-softmax shuffling methods, and which method each goes with."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gcbs_cli.system.errors import BadInput

SIDES = ("x", "y", "both")
DEFAULT_GROUP_SIZE = 8
DEFAULT_NEIGHBOURS = {"knn-groups": 500, "neighbours": 3}
DEFAULT_WORDS = 1
MOST_CLUSTERS = 1024
"""Clusters at most where no number is asked for: k-means takes time in proportion."""

USED_BY = {
    "group_size": ("knn-groups", "words", "clusters", "neighbours"),
    "neighbours": ("knn-groups", "neighbours"),
    "by": ("knn-groups", "clusters", "neighbours"),
    "skip_identical": ("knn-groups",),
    "clusters": ("clusters",),
    "words": ("words", "neighbours"),
}
OPTION_NAMES = {name: "--bsc-" + name.replace("_", "-") for name in USED_BY}


@dataclass(frozen=True)
class BscSettings:
    """How groups are made (Chernyavskiy et al., Batch-Softmax Contrastive Loss, NAACL 2022).

    `group_size`: s, rows a group at most; `neighbours`: n, nearest neighbours considered; `by`: the side on which rows
    are near each other, or both (the mean of both similarities); `skip_identical`: rows with the same embedding are no
    neighbours; `clusters`: of k-means, None for one a batch, 1,024 at most; `words`: t, words a shingle.
    """

    group_size: int = DEFAULT_GROUP_SIZE
    neighbours: int = DEFAULT_NEIGHBOURS["knn-groups"]
    by: str = "both"
    skip_identical: bool = False
    clusters: int | None = None
    words: int = DEFAULT_WORDS

    def __post_init__(self) -> None:
        least = {"group_size": 2, "neighbours": 1, "words": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise BadInput(f"{OPTION_NAMES[name]} {getattr(self, name)}: expected at least {bound}")
        if self.clusters is not None and self.clusters < 1:
            raise BadInput(f"--bsc-clusters {self.clusters}: expected at least 1")
        if self.by not in SIDES:
            raise BadInput(f"--bsc-by {self.by}: expected {', '.join(SIDES)}")

    def clusters_for(self, rows: int, batch_size: int) -> int:
        """The number of clusters for N rows."""
        return min(rows, self.clusters or min(MOST_CLUSTERS, max(1, round(rows / batch_size))))


def asked_bsc_options(
    group_size: int | None,
    neighbours: int | None,
    by: str | None,
    skip_identical: bool,
    clusters: int | None,
    words: int | None,
) -> dict[str, Any]:
    """The options by the names of `BscSettings`; None or False where nothing was asked."""
    return {
        "group_size": group_size,
        "neighbours": neighbours,
        "by": by,
        "skip_identical": skip_identical,
        "clusters": clusters,
        "words": words,
    }


def bsc_settings(method: str, options: Mapping[str, Any]) -> BscSettings:
    """The settings from a method's options, with that method's defaults; other options are left alone."""
    given = {name: options[name] for name in USED_BY if options.get(name) is not None}
    return BscSettings(**{"neighbours": DEFAULT_NEIGHBOURS.get(method, 1), **given})


def bsc_options(method: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What a method is to be given of the options asked for (None or False: not asked), defaults filled in.

    Raises BadInput for an option that the method does not know, and for values that cannot be.
    """
    return bsc_options_of_each([method], asked)[method]


def bsc_options_of_each(methods: Sequence[str], asked: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The same for several methods, each with the options that it knows; one must know each."""
    for name, value in asked.items():
        if value not in (None, False) and not set(methods) & set(USED_BY[name]):
            known, others = " or ".join(USED_BY[name]), ", ".join(methods)
            raise BadInput(f"{OPTION_NAMES[name]}: goes with --method {known}, not {others}")
    return {method: _filled(method, asked) for method in methods}


def _filled(method: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    filled = asdict(bsc_settings(method, asked))
    return {name: filled[name] for name, methods in USED_BY.items() if method in methods}
