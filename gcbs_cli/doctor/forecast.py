"""A guess of what a plan of N rows takes, without any data."""

import time
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from gcbs_cli.planning.forecast import BYTES_PER_EDGE
from gcbs_cli.products.backend import Backend, choose_backend
from gcbs_cli.products.tiles import BYTES_PER_TILE_ENTRY, DEFAULT_TILE_COLS, DEFAULT_TILE_ROWS, Tile
from gcbs_cli.settings.plan import DEFAULT_QUANTILE
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import SHARE_TO_USE, available_memory

_DEVIATIONS: Final = 3.09
"""A thousandth of a normal distribution lies beyond: the share of the entries above the default quantile."""
_ORDER_SECONDS_PER_ENTRY: Final = 60e-9
"""Building and ordering the graph, for one entry above the threshold (measured on two cores)."""


class PlanForecast(BaseModel):
    """Seconds of the pass and of the order, bytes at the peak, entries above t; `fits` in the memory that is free."""

    model_config = ConfigDict(frozen=True)

    rows: int
    dim: int
    quantile: float
    device: str
    entries: int
    pass_seconds: float
    order_seconds: float
    memory: int
    fits: bool


def forecast_plan(
    rows: int, dim: int, quantile: float = DEFAULT_QUANTILE, device: str = "auto", seconds: float = 0.3
) -> PlanForecast:
    """Time a tile of the pass for about `seconds` and scale it to N². Raises BadInput for sizes that make no sense."""
    if rows < 2:
        raise BadInput(f"--rows {rows}: expected at least 2")
    if dim < 1:
        raise BadInput(f"--dim {dim}: expected at least 1")
    if not 0.0 < quantile < 1.0:
        raise BadInput(f"--quantile {quantile}: expected a number between 0 and 1, such as 0.999")
    backend = choose_backend(device)
    entries = round((1.0 - quantile) * rows**2)
    scratch = backend.workers * DEFAULT_TILE_ROWS * DEFAULT_TILE_COLS * BYTES_PER_TILE_ENTRY
    memory = 2 * rows * dim * 4 + scratch + BYTES_PER_EDGE * entries
    return PlanForecast(
        rows=rows,
        dim=dim,
        quantile=quantile,
        device=backend.name,
        entries=entries,
        pass_seconds=_seconds_an_entry(dim, backend, seconds) * rows**2,
        order_seconds=entries * _ORDER_SECONDS_PER_ENTRY,
        memory=memory,
        fits=memory <= SHARE_TO_USE * available_memory(),
    )


def _seconds_an_entry(dim: int, backend: Backend, seconds: float) -> float:
    """Of products and comparison, with all workers busy."""
    x, y = _unit_rows(DEFAULT_TILE_ROWS, dim, 0), _unit_rows(DEFAULT_TILE_COLS, dim, 1)
    tile = Tile(slice(0, DEFAULT_TILE_ROWS), slice(0, DEFAULT_TILE_COLS))
    with backend.running():
        find = backend.finder(x, y, _DEVIATIONS / dim**0.5)
        find(tile)
        done, began = 0, time.perf_counter()
        while done == 0 or time.perf_counter() - began < seconds:
            find(tile)
            done += 1
        took = time.perf_counter() - began
    return took / done / tile.entries / backend.workers


def _unit_rows(rows: int, dim: int, seed: int) -> NDArray[np.float32]:
    values = np.random.default_rng(seed).standard_normal((rows, dim), dtype=np.float32)
    unit: NDArray[np.float32] = values / np.linalg.norm(values, axis=1, keepdims=True)
    return unit
