"""Time the report's pass over X Yᵀ on a GPU: the Triton kernel in both precisions beside products in memory.

Prints seconds, billions of entries a second, and the greatest and mean difference of the rows' log sums from those of
products in memory: what `PRECISION` in `gcbs_cli/products/fused_tiles.py` is to be chosen by.

Usage: ``python benchmarks/device_sums.py`` or ``python benchmarks/device_sums.py --rows 200000 --temperature 0.01``
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from gcbs_cli.products.backend import EntryLimits
from gcbs_cli.products.fused_tiles import FUSED_TILE_COLS, FUSED_TILE_ROWS, FusedTiles
from gcbs_cli.products.tiles import Tile, cut
from gcbs_cli.products.torch_backend import TorchBackend

PRODUCT_TILE = 8192
"""Rows and columns of a product in memory."""
SHARE_LISTED = 1e-3


def unit_rows(rows: int, dim: int, seed: int) -> NDArray[np.float32]:
    """(rows, dim) random unit rows."""
    drawn = np.random.default_rng(seed).normal(size=(rows, dim)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def limits_of(x: NDArray[np.float32], y: NDArray[np.float32]) -> EntryLimits:
    """Limits above which lies a thousandth of the entries; nothing is left out of the sums."""
    limit = float(np.quantile(x[:1000] @ y[:1000].T, 1.0 - SHARE_LISTED))
    nowhere = np.full(len(x), 2.0, np.float32)
    return EntryLimits(limit, nowhere, nowhere, nowhere)


def total(rows: int, tiles: list[Tile], row_sums: Callable[[Tile], NDArray[np.float64]]) -> NDArray[np.float64]:
    """(rows,) log sums over all tiles."""
    sums = np.full(rows, -np.inf)
    for tile in tiles:
        sums[tile.rows] = np.logaddexp(sums[tile.rows], row_sums(tile))
    return sums


def main(arguments: list[str] | None = None) -> None:
    """Time each way twice, and print the second time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:INDEX, or cpu with TRITON_INTERPRET=1 to try it")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--temperature", type=float, default=0.05)
    options = parser.parse_args(arguments)
    rows, scale = options.rows, 1.0 / options.temperature
    host = unit_rows(rows, options.dim, 0), unit_rows(rows, options.dim, 1)
    limits, backend = limits_of(*host), TorchBackend(options.device, fused=False)
    x, y = (backend.load(side) for side in host)

    def from_products(tile: Tile) -> NDArray[np.float64]:
        product = backend.product(x, y, tile.rows, tile.cols)
        backend.above(product, limits.threshold)
        return backend.log_sums(product, scale, columns=True)[0]

    def fused(precision: str) -> Callable[[Tile], NDArray[np.float64]]:
        summarise = FusedTiles(x, y, limits, [scale], precision=precision)
        return lambda tile: summarise(tile).row_sums[0]

    ways: dict[str, tuple[Callable[[Tile], NDArray[np.float64]], list[Tile]]] = {
        "products in memory": (from_products, cut(rows, rows, PRODUCT_TILE, PRODUCT_TILE))
    }
    for precision in ("ieee", "tf32x3"):
        ways[f"kernel, {precision}"] = (fused(precision), cut(rows, rows, FUSED_TILE_ROWS, FUSED_TILE_COLS))
    reference = None
    with backend.running():
        for name, (row_sums, tiles) in ways.items():
            total(rows, tiles, row_sums)
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            began = time.perf_counter()
            sums = total(rows, tiles, row_sums)
            seconds = time.perf_counter() - began
            reference = sums if reference is None else reference
            apart = sums - reference
            print(
                f"{name:20} {seconds:8.2f} s {rows**2 / seconds / 1e9:8.2f} G entries/s, "
                f"difference at most {np.abs(apart).max():.1e}, mean {apart.mean():+.1e}"
            )


if __name__ == "__main__":
    main()
