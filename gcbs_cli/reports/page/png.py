"""Pictures as PNG data, written without a library: one hue whose opacity is the value, for any background."""

import base64
import struct
import zlib
from typing import Final

import numpy as np
from numpy.typing import NDArray

_HUE: Final = (58, 124, 224)
_FAINTEST: Final = 50
"""Opacity (of 255) of a cell with a single entry, so that it can be seen."""
_FULL_QUANTILE: Final = 0.995
_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_RGB_AND_OPACITY: Final = bytes([8, 6, 0, 0, 0])


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
