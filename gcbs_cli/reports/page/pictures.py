"""Pictures of the hard pairs in an order, as PNG data: one hue whose opacity is the count, for any background."""

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.reports.build import Measured, random_order
from gcbs_cli.reports.page.drawing import Drawing, shape
from gcbs_cli.system.arrays import inverse

PICTURE = 300.0
BINS = 192
"""Cells on a side: a million rows fit as well, and more cells could not be seen on a page."""
ZOOM_BATCHES = 12
SMALLEST_BLOCK = 3.0
"""Pixels below which the outline of a batch would hide what is in it."""
PLAIN_BLOCK = 10.0
"""Pixels from which a batch is plain to see in the picture of all rows."""
_HUE: Final = (58, 124, 224)
_FAINTEST: Final = 50
"""Opacity (of 255) of a cell with a single entry, so that it can be seen."""
_FULL_QUANTILE: Final = 0.995
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGB_AND_OPACITY: Final = bytes([8, 6, 0, 0, 0])


@dataclass(frozen=True)
class Density:
    """Both directions of the edges whose places lie in [start, stop), counted in (cells, cells) int64."""

    counts: NDArray[np.int64]
    start: int
    stop: int


def pictures(measured: Measured) -> list[tuple[str, Drawing]]:
    """Captioned pictures of the hard pairs: all rows before and after, then both near the middle."""
    rows, size = measured.inputs.pair.rows, measured.report.batch_size
    orders = [("before (the input's order)", np.arange(rows))]
    if measured.perm is None:
        orders.append(("in a random order", random_order(measured.inputs, 0)))
    else:
        orders.append(("after (this plan)", measured.perm))
    windows = [(0, rows, f"all {rows:,} rows")]
    if size * PICTURE / rows < PLAIN_BLOCK:
        start, stop = zoom_window(rows, size)
        windows.append((start, stop, f"rows {start:,} to {stop - 1:,}, each square a batch"))
    found = []
    for start, stop, where in windows:
        group = [(f"{name}, {where}", density(measured.inputs.graph, perm, start, stop)) for name, perm in orders]
        full = full_count(*(counted.counts for _, counted in group))
        found += [(caption, density_picture(counted, size, full, caption)) for caption, counted in group]
    return found


def zoom_window(rows: int, batch_size: int) -> tuple[int, int]:
    """Places of some whole batches at the middle of the order: [start, stop)."""
    batches = -(-rows // batch_size)
    first = max(0, (batches - ZOOM_BATCHES) // 2)
    return first * batch_size, min(rows, (first + ZOOM_BATCHES) * batch_size)


def density(graph: Adjacency, perm: NDArray[np.int64], start: int, stop: int) -> Density:
    """Count the graph's entries in square cells of the reordered matrix, from place `start` to `stop`."""
    place = inverse(perm)
    rows, cols = place[graph.row_of_entry()] - start, place[graph.indices] - start
    length = stop - start
    cells = min(BINS, length)
    inside = (rows >= 0) & (rows < length) & (cols >= 0) & (cols < length)
    keys = (rows[inside] * cells // length) * cells + cols[inside] * cells // length
    return Density(np.bincount(keys, minlength=cells * cells).reshape(cells, cells), start, stop)


def density_picture(density: Density, batch_size: int, full: float, caption: str) -> Drawing:
    """The reordered matrix in cells, with the batches outlined where they are large enough to be seen."""
    length = density.stop - density.start
    scale = PICTURE / length
    shapes = [shape("image", "pixels", href=density_uri(density.counts, full), width=PICTURE, height=PICTURE)]
    for start in range(0, length, batch_size) if batch_size * scale >= SMALLEST_BLOCK else ():
        side = scale * min(batch_size, length - start)
        shapes.append(shape("rect", "block", x=scale * start, y=scale * start, width=side, height=side))
    shapes.append(shape("rect", "border", x=0, y=0, width=PICTURE, height=PICTURE))
    return Drawing(f"Hard pairs {caption}", PICTURE, PICTURE, shapes)


def density_uri(counts: NDArray[np.int64], full: float) -> str:
    """A data: URI of a (rows, columns) picture: zero is clear, opacity rises with the root of the count to `full`."""
    share = np.sqrt(np.minimum(counts / max(full, 1.0), 1.0))
    opacity = np.where(counts > 0, _FAINTEST + (255 - _FAINTEST) * share, 0).astype(np.uint8)
    pixels = np.empty((*counts.shape, 4), np.uint8)
    pixels[..., :3] = _HUE
    pixels[..., 3] = opacity
    return "data:image/png;base64," + base64.b64encode(encode_png(pixels)).decode()


def full_count(*pictures: NDArray[np.int64]) -> float:
    """The count that pictures to be compared show at full strength: exceeded by few of their marked cells."""
    marked = [counts[counts > 0] for counts in pictures]
    return max((float(np.quantile(counts, _FULL_QUANTILE)) for counts in marked if len(counts)), default=1.0)


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """(height, width, 4) bytes as a PNG file."""
    height, width, _ = pixels.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">II", width, height) + _RGB_AND_OPACITY
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
