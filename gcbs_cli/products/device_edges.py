"""Undirected edges found and kept on a device: fused Triton kernels where there are any, torch products elsewhere.

Both give the pairs that DESIGN's rule gives: what a fast product leaves in doubt is decided by float32 dot products,
and what these leave in doubt by the canonical float64 sum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.products.launching import launching_on
from gcbs_cli.products.operations import float32_error
from gcbs_cli.products.out_of_memory import in_fitting_blocks, naming_what_does_not_fit
from gcbs_cli.products.tiles import Progress
from gcbs_cli.products.torch_backend import has_kernels
from gcbs_cli.system.threads import OwnedByThreads, all_at_once, in_order

STRIP_ROWS = 8192
STRIP_UNIT = 128
"""Strips begin at multiples of so many rows, where the kernel's tiles begin."""
UPLOAD_ROWS = 1 << 16
DOUBLES_AT_ONCE = 1 << 27
"""Numbers of one float64 work array while pairs are decided canonically."""
TENSOR_CORE_ROUNDOFF = 2.0**-22
"""Matrix units cut sums off instead of rounding them; twice the unit that this is known to cost."""
ROUNDING = 2e-6
"""More than all float32 roundings of residuals, margins and comparisons add up to."""


@dataclass(frozen=True)
class DevicePairs:
    """Pairs of rows on a device, (n,) int32 each: row and column where they are entries, so in either order."""

    lower: torch.Tensor
    higher: torch.Tensor


@dataclass(frozen=True)
class DeviceEdges:
    """Every edge once, and the number of entries s_ij > t of all N², the diagonal included."""

    pairs: DevicePairs
    entries_above: int


@dataclass(frozen=True)
class FoundPairs:
    """What a fast product says of a strip.

    sure: pairs i < j with one of s_ij, s_ji above t; unsure: those with none surely above and one in doubt; lone:
    entries (i, j), in either order, in doubt whose mirror is surely above; entries: how many are surely above.
    """

    sure: DevicePairs
    unsure: DevicePairs
    lone: DevicePairs
    entries: int


def find_device_edges(
    pair: PairedRows,
    threshold: float,
    devices: Sequence[str],
    *,
    fused: bool | None = None,
    strip_rows: int = STRIP_ROWS,
    progress: Progress | None = None,
) -> DeviceEdges:
    """Every {i, j}, i < j, with s_ij > t or s_ji > t, each once, and the count of the entries above t.

    Each device holds both sides and takes the next strip when it is free; the pairs come to the first of them, in the
    order of the strips. `fused`: with the Triton kernels; by default where Triton is there and the device is a GPU.
    `strip_rows`: rows at once, halved on a device whose memory does not hold them. Raises OutOfDeviceMemory where it
    holds no part.
    """
    searches = OwnedByThreads(
        all_at_once(devices, lambda device: _StripSearch(pair, threshold, device, fused=fused, strip_rows=strip_rows))
    )
    parts: list[DeviceEdges] = []
    strips = _strips(pair.rows, strip_rows)
    dealt = in_order(len(devices), strips, lambda strip: searches.mine(strip))
    for strip, found in zip(strips, dealt, strict=True):
        parts += found
        if progress is not None:
            left = pair.rows - strip.stop
            progress(pair.rows**2 - left**2, pair.rows**2)
    edges = sum(len(part.pairs.lower) for part in parts)
    with naming_what_does_not_fit(f"{edges:,} edges", "a higher --quantile, fewer rows, --partitions"):
        pairs = _joined([part.pairs for part in parts], devices[0])
    return DeviceEdges(pairs, sum(part.entries_above for part in parts))


def _strips(rows: int, strip_rows: int) -> list[range]:
    """The rows in strips that begin where a tile of the kernel does: the widest, with most columns to go, first."""
    height = max(1, strip_rows // STRIP_UNIT) * STRIP_UNIT
    return [range(start, min(start + height, rows)) for start in range(0, rows, height)]


class _StripSearch:
    """Both sides on one device, and the edges of strips of their rows, made and kept there."""

    def __init__(self, pair: PairedRows, threshold: float, device: str, *, fused: bool | None, strip_rows: int) -> None:
        self._x, self._y, self._threshold = upload(pair.x, device), upload(pair.y, device), threshold
        search = _FusedSearch if (has_kernels(device) if fused is None else fused) else _PlainSearch
        with naming_what_does_not_fit(f"{pair.rows:,} × {pair.dim:,} embeddings twice", "--partitions, fewer rows"):
            self._find = search(self._x, self._y, threshold)
        self._units = max(1, strip_rows // STRIP_UNIT)
        self._what = f"strips of {STRIP_UNIT} rows in the search for edges on {device}"

    def __call__(self, strip: range) -> list[DeviceEdges]:
        """The edges of a strip, in as many parts as this device's memory has asked for so far."""
        parts: list[DeviceEdges] = []

        def settle(first: int, last: int) -> None:
            rows = strip[first * STRIP_UNIT : last * STRIP_UNIT]
            found = self._find(rows.start, rows.stop)
            parts.append(_settled(self._x, self._y, found, rows, self._threshold))

        units = -(-len(strip) // STRIP_UNIT)
        self._units = in_fitting_blocks(units, self._units, settle, least=1, what=self._what)
        return parts


def _joined(parts: list[DevicePairs], device: str | torch.device) -> DevicePairs:
    lower, higher = torch.empty((2, sum(len(part.lower) for part in parts)), dtype=torch.int32, device=device)
    start = 0
    for part in parts:
        stop = start + len(part.lower)
        lower[start:stop].copy_(part.lower)
        higher[start:stop].copy_(part.higher)
        start = stop
    return DevicePairs(lower, higher)


def _settled(x: torch.Tensor, y: torch.Tensor, found: FoundPairs, rows: range, threshold: float) -> DeviceEdges:
    """The edges of a strip and its entries above t, those of its own diagonal among them."""
    forward, backward = decide(x, y, found.unsure, threshold), decide(x, y, _mirrored(found.unsure), threshold)
    above = forward | backward
    pairs = DevicePairs(found.unsure.lower[above], found.unsure.higher[above])
    own = torch.arange(rows.start, rows.stop, device=x.device)
    decided = [forward, backward, decide(x, y, found.lone, threshold), canonical_dots(x, y, own, own) > threshold]
    entries = found.entries + sum(int(entries.sum()) for entries in decided)
    return DeviceEdges(_joined([found.sure, pairs], x.device), entries)


def _mirrored(pairs: DevicePairs) -> DevicePairs:
    return DevicePairs(pairs.higher, pairs.lower)


def upload(rows: NDArray[np.float32], device: str) -> torch.Tensor:
    """(N, d) float32 on the device, copied block by block."""
    with naming_what_does_not_fit(f"{len(rows):,} × {rows.shape[1]:,} embeddings", "--partitions, fewer rows"):
        target = torch.empty(rows.shape, dtype=torch.float32, device=device)
    for start in range(0, len(rows), UPLOAD_ROWS):
        block = np.ascontiguousarray(rows[start : start + UPLOAD_ROWS])
        target[start : start + len(block)] = torch.from_numpy(block).to(device)
    return target


def canonical_dots(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
    """(n,) float64 s_ij of index pairs with the bits of `embeddings.canonical.dot_pairs`: sums by halving."""
    step = max(1, DOUBLES_AT_ONCE // x.shape[1])
    out = torch.empty(len(rows), dtype=torch.float64, device=x.device)
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        work = x[rows[part].long()].double() * y[cols[part].long()].double()
        filled = work.shape[1]
        while filled > 1:
            half = 1 << ((filled - 1).bit_length() - 1)
            work[:, : filled - half] += work[:, half:filled]
            filled = half
        out[part] = work[:, 0] + 0.0
    return out


def decide(x: torch.Tensor, y: torch.Tensor, entries: DevicePairs, threshold: float) -> torch.Tensor:
    """(n,) bool, whether s_ij > t for these entries, by float32 products and, near t, canonically."""
    error = float32_error(x.shape[1]) + ROUNDING
    difference = _float32_dots(x, y, entries.lower, entries.higher).double() - threshold
    above = difference > 0
    near = torch.nonzero(difference.abs() <= error).reshape(-1)
    above[near] = canonical_dots(x, y, entries.lower[near], entries.higher[near]) > threshold
    return above


def _float32_dots(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
    if has_kernels(x.device.type):
        return fused_dots(x, y, rows, cols)
    step = max(1, DOUBLES_AT_ONCE // x.shape[1])
    parts = [
        (x[rows[start : start + step].long()] * y[cols[start : start + step].long()]).sum(dim=1)
        for start in range(0, len(rows), step)
    ]
    return torch.cat(parts) if parts else torch.empty(0, device=x.device)


def fused_dots(x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
    """(n,) float32 dot products of index pairs by the Triton kernel."""
    from gcbs_cli.products import triton_kernels

    values = torch.empty(len(rows), dtype=torch.float32, device=x.device)
    if len(rows):
        grid = (-(-len(rows) // triton_kernels.PAIRS),)
        rows, cols = rows.contiguous(), cols.contiguous()
        with launching_on(x):
            triton_kernels.pair_dots[grid](x, y, rows, cols, values, len(rows), x.shape[1], triton_kernels.PAIRS, 64)
    return values


class _PlainSearch:
    """float32 products of a strip with all rows that come after its first: the reference for the fused kernel."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, threshold: float) -> None:
        self._x, self._y, self._threshold = x, y, threshold
        self._error = float32_error(x.shape[1]) + ROUNDING

    def __call__(self, start: int, stop: int) -> FoundPairs:
        forward, backward = self._x[start:stop] @ self._y[start:].T, self._y[start:stop] @ self._x[start:].T
        wanted = torch.ones(forward.shape, dtype=torch.bool, device=forward.device).triu(diagonal=1)
        sure = [wanted & (product > self._threshold + self._error) for product in (forward, backward)]
        doubts = [
            wanted & (product > self._threshold - self._error) & ~is_sure
            for product, is_sure in zip((forward, backward), sure, strict=True)
        ]
        lone = [self._places(doubts[0] & sure[1], start), _mirrored(self._places(doubts[1] & sure[0], start))]
        return FoundPairs(
            sure=self._places(sure[0] | sure[1], start),
            unsure=self._places((doubts[0] | doubts[1]) & ~(sure[0] | sure[1]), start),
            lone=_joined(lone, forward.device),
            entries=int(sure[0].sum() + sure[1].sum()),
        )

    @staticmethod
    def _places(chosen: torch.Tensor, start: int) -> DevicePairs:
        rows, cols = torch.nonzero(chosen, as_tuple=True)
        return DevicePairs((rows + start).int(), (cols + start).int())


class _FusedSearch:
    """The Triton kernel over bfloat16 rows; |x·y − x̂·ŷ| <= ‖x − x̂‖ ‖y‖ + ‖x̂‖ ‖y − ŷ‖, and what accumulation adds."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, threshold: float) -> None:
        self._threshold = threshold
        self._x, self._y = x.bfloat16(), y.bfloat16()
        dim = x.shape[1]
        y_norm, x_rounded = _largest_norm(y), _largest_norm(self._x)
        accumulation = (dim + 2) * TENSOR_CORE_ROUNDOFF * x_rounded * _largest_norm(self._y) + ROUNDING
        self._x_margin = _residuals(x, self._x) * y_norm + accumulation / 2
        self._y_margin = _residuals(y, self._y) * x_rounded + accumulation / 2
        self._rooms = [1 << 20, 1 << 20]

    def __call__(self, start: int, stop: int) -> FoundPairs:
        """Pairs whose lower row is in the strip, which begins and ends between tiles."""
        while True:
            lists = [torch.empty((room, 2), dtype=torch.int32, device=self._x.device) for room in self._rooms]
            *counts, entries = self._launch(lists, start, stop)
            if all(count <= room for count, room in zip(counts, self._rooms, strict=True)):
                sure, open_pairs = (found[:count] for found, count in zip(lists, counts, strict=True))
                is_lone = open_pairs[:, 0] < 0
                unsure, lone = open_pairs[~is_lone], open_pairs[is_lone]
                return FoundPairs(
                    DevicePairs(sure[:, 0].clone(), sure[:, 1].clone()),
                    DevicePairs(unsure[:, 0], unsure[:, 1]),
                    DevicePairs(-1 - lone[:, 0], lone[:, 1]),
                    entries,
                )
            self._rooms = [max(room, count + count // 8) for room, count in zip(self._rooms, counts, strict=True)]

    def _launch(self, lists: list[torch.Tensor], start: int, stop: int) -> list[int]:
        from gcbs_cli.products import triton_kernels

        nodes, dim = self._x.shape
        tile = triton_kernels.TILE
        counts = torch.zeros(3, dtype=torch.int64, device=self._x.device)
        tiles, first = -(-nodes // tile), start // tile
        with launching_on(self._x):
            triton_kernels.find_pairs[(-(-stop // tile) - first, tiles - first)](
                self._x,
                self._y,
                self._x_margin,
                self._y_margin,
                *lists,
                counts,
                *self._rooms,
                nodes,
                first,
                float(np.nextafter(np.float32(self._threshold), np.float32(-np.inf))),
                float(np.nextafter(np.float32(self._threshold), np.float32(np.inf))),
                dim,
                tile,
                triton_kernels.DEPTH,
                not self._x.is_cuda,  # the interpreter's products of bfloat16 are wrong
                num_warps=8,
            )
        return cast(list[int], counts.tolist())


def _in_row_blocks(rows: int, work: Callable[[slice], torch.Tensor]) -> torch.Tensor:
    return torch.cat([work(slice(start, start + UPLOAD_ROWS)) for start in range(0, rows, UPLOAD_ROWS)])


def _largest_norm(rows: torch.Tensor) -> float:
    return float(_in_row_blocks(len(rows), lambda part: rows[part].float().norm(dim=1)).max())


def _residuals(rows: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    return _in_row_blocks(len(rows), lambda part: (rows[part] - rounded[part].float()).norm(dim=1))
