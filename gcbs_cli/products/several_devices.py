"""Tiles on several torch devices: every worker thread owns one of them, and takes the next tile when it is free.

Each device holds a copy of the rows. What a pass decides canonically (edges, hardest lists) is the same whichever
device made a tile; float32 sums are the same where the devices are of one kind.
"""

from collections.abc import Sequence
from typing import Any, cast

import torch
from numpy.typing import NDArray

from gcbs_cli.products.backend import Array, EntryLimits, Summariser, TileSummary
from gcbs_cli.products.tiles import Tile
from gcbs_cli.products.torch_backend import TorchBackend
from gcbs_cli.system.threads import OwnedByThreads, all_at_once


class SeveralDevices(TorchBackend):
    """A TorchBackend whose loaded rows are copies, one a device; a tile is made and used on the thread's own."""

    def __init__(self, devices: Sequence[str], *, fused: bool | None = None) -> None:
        """`devices`: at least two, the first of which does what is not dealt; `fused`: as for one."""
        super().__init__(devices[0], fused=fused)
        self.name = several_name(devices)
        self.devices = tuple(devices)
        self.workers = len(devices)
        self._members = OwnedByThreads([TorchBackend(device, fused=fused) for device in devices])

    def load(self, rows: NDArray[Any]) -> list[Array]:
        """A copy for each device, all under way at once."""
        return all_at_once(self._members.things, lambda member: member.load(rows))

    def part(self, loaded: list[Array], rows: slice) -> Array:
        return self._members.mine.part(loaded[self._members.place], rows)

    def product(self, x: list[Array], y: list[Array], rows: slice, cols: slice) -> torch.Tensor:
        place = self._members.place
        return self._members.mine.product(x[place], y[place], rows, cols)

    def summariser(
        self, x: list[Array], y: list[Array], limits: EntryLimits, inverse_temperatures: list[float]
    ) -> Summariser | None:
        found = [
            member.summariser(left, right, limits, inverse_temperatures)
            for member, left, right in zip(self._members.things, x, y, strict=True)
        ]
        if any(summarise is None for summarise in found):
            return None
        return _DealtSummariser(cast(list[Summariser], found), self._members)


class _DealtSummariser:
    """One summariser a device, each called by the threads that own the device."""

    def __init__(self, summarisers: list[Summariser], members: OwnedByThreads[TorchBackend]) -> None:
        self._summarisers, self._members = summarisers, members
        self.tile_rows, self.tile_cols = summarisers[0].tile_rows, summarisers[0].tile_cols

    def __call__(self, tile: Tile) -> TileSummary:
        """The summary of one tile, made on this thread's device."""
        return self._summarisers[self._members.place](tile)


def several_name(devices: Sequence[str]) -> str:
    """One name for several devices: cuda:0,1 for cuda:0 and cuda:1."""
    return ",".join([devices[0], *(device.removeprefix("cuda:") for device in devices[1:])])
