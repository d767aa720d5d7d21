"""Pictures of the hard pairs in an order, as PNG data: one hue whose opacity is the count, for any background."""

import base64
import struct
import zlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.graph.adjacency import Adjacency
from gcbs_cli.reports.in_batch import random_order
from gcbs_cli.reports.losses import Measured
from gcbs_cli.system.arrays import Ints, inverse

BINS = 192
"""Cells on a side: a million rows fit as well, and more cells could not be seen on a page."""
ZOOM_BATCHES = 12
LEAST_SHARE = 0.01
"""Of a side, that a batch takes for its outline to leave something to see in it."""
PLAIN_SHARE = 0.033
"""Of a side, from which a batch is plain to see in the picture of all rows."""
_HUE: Final = (58, 124, 224)
_FAINTEST: Final = 50
"""Opacity (of 255) of a cell with a single entry, so that it can be seen."""
_FULL_QUANTILE: Final = 0.995


@dataclass(frozen=True)
class Picture:
    """The reordered matrix. side: rows; data: a URI; batch: rows of those that are outlined, 0 for none."""

    caption: str
    side: int
    data: str
    batch: int


def pictures(measured: Measured) -> list[Picture]:
    """The hard pairs: all rows before and after, then both near the middle."""
    inputs, size = measured.inputs, measured.report.batch_size
    rows = inputs.pair.rows
    orders = [("before (the input's order)", np.arange(rows))]
    if measured.perm is None:
        orders.append(("in a random order", random_order(rows, inputs.settings.seed, 0)))
    else:
        orders.append(("after (this plan)", measured.perm))
    windows = [(0, rows, f"all {rows:,} rows")]
    if size < PLAIN_SHARE * rows:
        start, stop = zoom_window(rows, size)
        windows.append((start, stop, f"rows {start:,} to {stop - 1:,}, each square a batch"))
    found = []
    for start, stop, where in windows:
        counts = [density(inputs.graph, perm, start, stop) for _, perm in orders]
        # What pictures to be compared show at full strength is exceeded by few of their marked cells.
        full = max(np.quantile(part[part > 0], _FULL_QUANTILE) if part.any() else 1.0 for part in counts)
        batch = size if size >= LEAST_SHARE * (stop - start) else 0
        for (name, _), part in zip(orders, counts, strict=True):
            found.append(Picture(f"{name}, {where}", stop - start, density_uri(part, full), batch))
    return found


def zoom_window(rows: int, batch_size: int) -> tuple[int, int]:
    """Places of some whole batches at the middle of the order: [start, stop)."""
    batches = -(-rows // batch_size)
    first = max(0, (batches - ZOOM_BATCHES) // 2)
    return first * batch_size, min(rows, (first + ZOOM_BATCHES) * batch_size)


def density(graph: Adjacency, perm: Ints, start: int, stop: int) -> Ints:
    """Count the graph's entries in square cells of the reordered matrix, from place `start` to `stop`."""
    place = inverse(perm)
    rows, cols = place[graph.row_of_entry()] - start, place[graph.indices] - start
    length = stop - start
    cells = min(BINS, length)
    inside = (rows >= 0) & (rows < length) & (cols >= 0) & (cols < length)
    keys = (rows[inside] * cells // length) * cells + cols[inside] * cells // length
    return np.bincount(keys, minlength=cells * cells).reshape(cells, cells)


def density_uri(counts: Ints, full: float) -> str:
    """A data: URI of a (rows, columns) picture: zero is clear, opacity rises with the root of the count to `full`."""
    share = np.sqrt(np.minimum(counts / full, 1.0))
    opacity = np.where(counts > 0, _FAINTEST + (255 - _FAINTEST) * share, 0).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(encode_png(opacity)).decode()


def encode_png(opacity: NDArray[np.uint8]) -> bytes:
    """(height, width) bytes as a PNG file of one hue, whose palette has it in every opacity."""
    height, width = opacity.shape
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": bytes(_HUE) * 256,
        b"tRNS": bytes(range(256)),
        b"IDAT": zlib.compress(np.pad(opacity, ((0, 0), (1, 0))).tobytes(), 9),  # 0 before a line: not filtered
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    )
