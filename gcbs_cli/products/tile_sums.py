"""What a report takes from a tile of products, and how it outlives the process."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.edges import Exceedances
from gcbs_cli.products.hardest import QueryValues
from gcbs_cli.products.tiles import BlockStore, Kept


@dataclass(frozen=True)
class TileSums:
    """Of a tile of X Yᵀ: for each temperature its log sums by row and by column, without the `masked` ones of the
    entries `found` at or above t; and what may be among the hardest of its rows and columns.
    """

    rows: list[NDArray[np.float64]]
    cols: list[NDArray[np.float64]]
    found: Exceedances
    masked: NDArray[np.bool_]
    hard_rows: QueryValues
    hard_cols: QueryValues


@dataclass(frozen=True)
class SideTileSums:
    """Of a tile of S Sᵀ: its log sums by row for each temperature, without the suspected entries `removed`; and what
    may be among the hardest of its rows.
    """

    rows: list[NDArray[np.float64]]
    hard: QueryValues
    removed: QueryValues


def kept_sums(store: BlockStore | None, settings: str, temperatures: int, threshold: float) -> Kept[TileSums] | None:
    """How the pass over X Yᵀ keeps its results; None without a store. `settings`: what decides them."""
    if store is None:
        return None
    both = 2 * temperatures

    def pack(sums: TileSums) -> list[NDArray[Any]]:
        found, rows, cols = sums.found, sums.hard_rows, sums.hard_cols
        entries: list[NDArray[Any]] = [found.rows, found.cols, found.values, sums.masked]
        return [*sums.rows, *sums.cols, *entries, rows.queries, rows.values, cols.queries, cols.values]

    def unpack(arrays: Sequence[NDArray[Any]]) -> TileSums:
        rest = arrays[both:]
        return TileSums(
            list(arrays[:temperatures]),
            list(arrays[temperatures:both]),
            Exceedances(threshold, *rest[:3]),
            rest[3],
            QueryValues(*rest[4:6]),
            QueryValues(*rest[6:]),
        )

    return Kept(store, "sums", settings, both + 8, pack, unpack)


def kept_side_sums(store: BlockStore | None, stage: str, settings: str, temperatures: int) -> Kept[SideTileSums] | None:
    """How the pass over one side keeps its results; None without a store."""
    if store is None:
        return None

    def pack(sums: SideTileSums) -> list[NDArray[Any]]:
        return [*sums.rows, sums.hard.queries, sums.hard.values, sums.removed.queries, sums.removed.values]

    def unpack(arrays: Sequence[NDArray[Any]]) -> SideTileSums:
        rest = arrays[temperatures:]
        return SideTileSums(list(arrays[:temperatures]), QueryValues(*rest[:2]), QueryValues(*rest[2:]))

    return Kept(store, stage, settings, temperatures + 4, pack, unpack)
