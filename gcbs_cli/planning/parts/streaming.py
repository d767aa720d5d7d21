"""Both sides of the pairs in one pass: unit rows block by block, never all at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.data import EmbeddingSource
from gcbs_cli.data.files import FileStamp, check_still_the_same
from gcbs_cli.data.normalise import unit_rows_into
from gcbs_cli.data.unit_row_blocks import UnitRowBlocks
from gcbs_cli.data.unit_rows import BLOCK_BYTES
from gcbs_cli.system.errors import BadInput

Rows = NDArray[np.float32]


@dataclass
class PairStream:
    """The two opened sources of the pairs, read as often as is asked.

    `fingerprints`: of both sides once a pass has ended, "" before; a later pass that reads other bytes is an error.
    """

    x: EmbeddingSource
    y: EmbeddingSource
    normalize: bool = True
    block_bytes: int = BLOCK_BYTES
    fingerprints: tuple[str, str] = ("", "")

    @property
    def rows(self) -> int:
        """N."""
        return self.x.rows

    @property
    def dim(self) -> int:
        """d."""
        return self.x.dim

    @property
    def stamps(self) -> tuple[FileStamp, ...]:
        """Those of the files of both sides."""
        return (*self.x.stamps, *self.y.stamps)

    def check_unchanged(self) -> None:
        """Raise BadInput when a file is no longer what was opened."""
        for stamp in self.stamps:
            check_still_the_same(stamp)

    def blocks(self) -> Iterator[tuple[int, Rows, Rows]]:
        """Yield the first row of a block and its unit rows of both sides, (n, d) float32 each.

        Raises BadInput for rows that cannot be unit rows and for files that differ from an earlier pass.
        """
        readers = [UnitRowBlocks(side, normalize=self.normalize, block_bytes=self.block_bytes) for side in self._sides]
        yield from _in_step(*map(iter, readers))
        found = readers[0].fingerprint, readers[1].fingerprint
        if self.fingerprints not in (("", ""), found):
            raise BadInput(
                f"{self.x.name}, {self.y.name}: changed between two passes; run again when they are complete"
            )
        self.fingerprints = found

    @property
    def _sides(self) -> tuple[EmbeddingSource, EmbeddingSource]:
        return self.x, self.y


def mean_rows(x: Rows, y: Rows) -> Rows:
    """(n, d) the unit mean of both sides; that of x alone where they cancel out."""
    means = np.empty_like(x)
    opposite = unit_rows_into(x + y, "float32", means, normalize=True).zero
    means[opposite] = x[opposite]
    return means


def _in_step(x_blocks: Iterator[Rows], y_blocks: Iterator[Rows]) -> Iterator[tuple[int, Rows, Rows]]:
    """Blocks of both sides cut to the same rows: shards of the two sides may end at different places."""
    start = 0
    left: Rows | None = None
    right: Rows | None = None
    while True:
        left = next(x_blocks, None) if left is None else left
        right = next(y_blocks, None) if right is None else right
        if left is None or right is None:
            return
        count = min(len(left), len(right))
        if count:
            yield start, left[:count], right[:count]
        start += count
        left = left[count:] if count < len(left) else None
        right = right[count:] if count < len(right) else None
