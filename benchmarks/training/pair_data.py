"""Pairs of a folder made by make_codedoc.py, split into training rows and held-out queries."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Split:
    """Rows to train on, all candidates (held-out rows), and the queries among them, as row numbers.

    The test queries are the same for every seed, and no seed trains or validates on them.
    """

    train: NDArray[np.int64]
    candidates: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


def split_rows(rows: int, train: int, queries: int, seed: int) -> Split:
    """The last `queries` rows are for the test; the seed parts the others. Candidates are all that is not trained on.

    Raises ValueError where rows do not suffice.
    """
    if train + 2 * queries > rows:
        raise ValueError(f"{rows} pairs: {train} to train on and twice {queries} queries need {train + 2 * queries}")
    order = np.random.default_rng([seed, 0x5B117]).permutation(rows - queries)
    test = np.arange(rows - queries, rows)
    candidates = np.sort(np.concatenate([order[train:], test]))
    return Split(np.sort(order[:train]), candidates, order[train : train + queries], test)


def places_in(rows: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each row stands in the ascending list `among`."""
    return np.searchsorted(among, rows)


def load_texts(folder: Path) -> tuple[list[str], list[str]]:
    """The texts of x and of y (columns doc and code of texts.parquet)."""
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "texts.parquet", columns=["doc", "code"])
    return table["doc"].to_pylist(), table["code"].to_pylist()
