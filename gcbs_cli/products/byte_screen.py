"""Find the entries of X Yᵀ that may reach a threshold from products of 8-bit rows, with a proven bound on what is lost.

A row x is kept as a scale a and whole numbers q in −127 … 127, so that x̂ = a·q. Sums of products of the q are exact,
and |x·y − x̂·ŷ| <= ‖x − x̂‖ ‖y‖ + ‖x̂‖ ‖y − ŷ‖ (Cauchy and Schwarz), norms that are known row by row. What remains near
or above the threshold is multiplied again in float32.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.products.backend import Entries
from gcbs_cli.products.byte_kernels import BLOCK_COLS, BLOCK_ROWS, GROUP, LANES, ByteKernels, address
from gcbs_cli.products.tiles import Tile
from gcbs_cli.system.threads import in_parts

LARGEST = 127
OFFSET = 128
"""Added to the numbers of the columns: the instruction takes one side unsigned."""
MOST_DIM = 32768
"""Up to here no sum leaves 32 bits."""
ROUNDING = 4e-6
"""More than all float32 roundings of scales, residuals, limits and of the comparison itself add up to (a few dozen of
2⁻²⁴, of numbers that are at most 2)."""
ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class ByteRows:
    """Rows rounded to whole multiples of a scale each.

    numbers: (N, D) int8 with D a multiple of 4; scales: (N,) float32; residuals: (N,) float32, at least ‖row − scale ·
    numbers‖; largest_norm, largest_rounded: at least every ‖row‖ and every ‖scale · numbers‖.
    """

    numbers: NDArray[np.int8]
    scales: NDArray[np.float32]
    residuals: NDArray[np.float32]
    largest_norm: float
    largest_rounded: float


def round_rows(rows: NDArray[np.float32]) -> ByteRows:
    """(N, d) float32 rows as bytes."""
    count, dim = rows.shape
    numbers = np.zeros((count, -(-dim // GROUP) * GROUP), np.int8)
    scales, residuals, norms, rounded = (np.empty(count, np.float32) for _ in range(4))

    def convert(start: int, stop: int) -> None:
        part = rows[start:stop]
        largest = np.maximum(part.max(axis=1), -part.min(axis=1))
        scale = np.where(largest > 0, largest / np.float32(LARGEST), 1).astype(np.float32)
        work: NDArray[np.float32] = part / scale[:, None]
        np.clip(np.rint(work, out=work), -LARGEST, LARGEST, out=work)
        numbers[start:stop, :dim] = work
        work *= scale[:, None]
        norms[start:stop], rounded[start:stop] = _norms(part), _norms(work)
        residuals[start:stop] = _norms(np.subtract(part, work, out=work))
        scales[start:stop] = scale

    in_parts(count, ROWS_AT_ONCE, convert)
    return ByteRows(numbers, scales, residuals, float(norms.max()), float(rounded.max()))


def _norms(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


class ByteScreen:
    """X and Y as bytes, ready to be searched tile by tile.

    Memory: a quarter of the float32 rows of both sides.
    """

    def __init__(self, kernels: ByteKernels, x: NDArray[np.float32], y: NDArray[np.float32]) -> None:
        self._kernels, self._x, self._y = kernels, x, y
        left, right = round_rows(x), round_rows(y)
        count, width = left.numbers.shape
        # Blocks at the end read beyond the last row.
        self._numbers = np.zeros((count + BLOCK_ROWS, width), np.int8)
        self._numbers[:count] = left.numbers
        self._starts = _padded(-OFFSET * left.numbers.sum(axis=1, dtype=np.int32), count + BLOCK_ROWS, 0)
        self._scales = _padded(left.scales, count + BLOCK_ROWS, 0)
        self._residuals = left.residuals * np.float32(right.largest_norm)
        cols = -(-len(y) // BLOCK_COLS) * BLOCK_COLS
        self._blocks = _in_blocks(right.numbers, cols)
        self._col_scales = _padded(right.scales, cols, 0)
        self._col_margins = _padded(right.residuals * np.float32(left.largest_rounded), cols, -np.inf)

    def fits(self, tile: Tile) -> bool:
        """Whether the tile begins and ends where blocks of columns do."""
        return tile.cols.start % BLOCK_COLS == 0 and (
            tile.cols.stop % BLOCK_COLS == 0 or tile.cols.stop == len(self._y)
        )

    def reaching(self, tile: Tile, threshold: float, places: NDArray[np.int32]) -> Entries:
        """Every entry whose exact value may be at or above the threshold, with its float32 value, in no order.

        places: (2, n) int32, room for as many entries as the tile has.
        """
        return self._screened(tile, np.float32(threshold), self._col_margins, places)

    def above_rows(self, tile: Tile, limits: NDArray[np.float32], places: NDArray[np.int32]) -> Entries:
        """The same for the limits (N,) of all rows."""
        return self._screened(tile, limits[tile.rows], self._col_margins, places)

    def margins_below(self, limits: NDArray[np.float32]) -> NDArray[np.float32]:
        """For `above_cols`, from the limits (M,) of all columns."""
        return _padded(self._col_margins[: len(limits)] - limits, len(self._col_margins), -np.inf)

    def above_cols(self, tile: Tile, margins: NDArray[np.float32], places: NDArray[np.int32]) -> Entries:
        """The same for the limits of all columns, which `margins_below` has taken."""
        return self._screened(tile, np.float32(0.0), margins, places)

    def _screened(
        self,
        tile: Tile,
        row_limits: NDArray[np.float32] | np.float32,
        col_margins: NDArray[np.float32],
        places: NDArray[np.int32],
    ) -> Entries:
        height, width = tile.rows.stop - tile.rows.start, tile.cols.stop - tile.cols.start
        limits = np.full(-(-height // BLOCK_ROWS) * BLOCK_ROWS, np.inf, np.float32)
        limits[:height] = row_limits - np.float32(ROUNDING) - self._residuals[tile.rows]
        found = self._kernels.screen(
            address(self._numbers[tile.rows]),
            self._numbers.shape[1] // GROUP,
            len(limits) // BLOCK_ROWS,
            address(self._starts[tile.rows]),
            address(self._scales[tile.rows]),
            address(limits),
            address(self._blocks[tile.cols.start // BLOCK_COLS]),
            -(-width // BLOCK_COLS),
            address(self._col_scales[tile.cols]),
            address(col_margins[tile.cols]),
            address(places[0]),
            address(places[1]),
        )
        rows, cols = places[0, :found], places[1, :found]
        values = np.empty(found, np.float32)
        left, right = self._x[tile.rows], self._y[tile.cols]
        self._kernels.dots(
            address(left), address(right), left.shape[1], found, address(rows), address(cols), address(values)
        )
        return Entries(rows.astype(np.int64), cols.astype(np.int64), values)


def _padded(values: NDArray[Any], count: int, filler: float) -> NDArray[Any]:
    out = _aligned(count, values.dtype)
    out[: len(values)], out[len(values) :] = values, filler
    return out


def _in_blocks(numbers: NDArray[np.int8], cols: int) -> NDArray[np.uint8]:
    """(B, D/4, 32, 4): of each 32 columns, groups of four coordinates side by side, as unsigned bytes."""
    count, width = numbers.shape
    out = _aligned(cols * width, np.dtype(np.uint8)).reshape(-1, width // GROUP, BLOCK_COLS, GROUP)
    words = out.view(np.uint32)[..., 0]

    def convert(start: int, stop: int) -> None:
        block = np.full((stop - start, width), OFFSET, np.uint8)
        part = numbers[start : min(stop, count)]
        block[: len(part)] = part.view(np.uint8) ^ np.uint8(OFFSET)
        four = block.view(np.uint32).reshape(-1, BLOCK_COLS, width // GROUP)
        words[start // BLOCK_COLS : stop // BLOCK_COLS] = four.transpose(0, 2, 1)

    in_parts(cols, ROWS_AT_ONCE, convert)
    return out


def _aligned(count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """(count,) new memory that begins where a register's worth of bytes does."""
    size = LANES * 4
    raw = np.empty(count * dtype.itemsize + size, np.uint8)
    start = -raw.ctypes.data % size
    return raw[start : start + count * dtype.itemsize].view(dtype)
