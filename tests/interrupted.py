"""Passes that are stopped in the middle, and how much work they did."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gcbs_cli.products import tiles


class Killed(BaseException):
    """What a pass ends in that is stopped."""


class Work:
    """How many entries of products were made, those of timed trials left out."""

    entries = 0


@contextmanager
def watched_tiles(stop_after: int | None = None) -> Iterator[Work]:
    """Count what tiles are made; raise Killed after so many entries."""
    work = Work()
    run = tiles.in_order

    def counting(workers, some, of_tile):
        for parts in run(workers, some, of_tile):
            work.entries += sum(tile.entries for tile, _ in parts)
            if stop_after is not None and work.entries > stop_after:
                raise Killed
            yield parts

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "in_order", counting)
        for trial in ("reports.forecast.seconds_of_sums", "forecast.seconds_of_edges", "forecast.seconds_of_lists"):
            patch.setattr(f"gcbs_cli.{trial}", lambda *_, **__: 0.0)
        yield work
