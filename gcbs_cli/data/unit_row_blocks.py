"""Unit rows of a side block by block, for work that never holds them all."""

from collections.abc import Iterator

import numpy as np
import xxhash
from numpy.typing import NDArray

from gcbs_cli.data.normalise import unit_rows_into
from gcbs_cli.data.row_list import RowList
from gcbs_cli.data.source import RAW_DTYPES, EmbeddingSource
from gcbs_cli.data.unit_rows import BLOCK_BYTES, check_count, little_endian_bytes, refuse_faults


class UnitRowBlocks:
    """The rows of a source with the bits, the checks and the fingerprint of `read_unit_rows`."""

    def __init__(self, source: EmbeddingSource, *, normalize: bool = True, block_bytes: int = BLOCK_BYTES) -> None:
        self.source, self.normalize = source, normalize
        self.rows_per_block = max(1, block_bytes // (source.dim * RAW_DTYPES[source.dtype].itemsize))
        self.fingerprint = ""
        """Of all rows, once all have been read."""

    def __iter__(self) -> Iterator[NDArray[np.float32]]:
        """Yield blocks of (n, d) float32 unit rows. Raises BadInput as `read_unit_rows` does, after the last one."""
        source = self.source
        digest = xxhash.xxh3_128(f"{source.dtype};{source.rows}x{source.dim};".encode())
        faults = {"non_finite": RowList(), "zero": RowList(), "not_unit": RowList()}
        done = 0
        for block in source.blocks(self.rows_per_block):
            if done + len(block) > source.rows:
                break
            digest.update(little_endian_bytes(block))
            rows = np.empty(block.shape, np.float32)
            found = unit_rows_into(block, source.dtype, rows, normalize=self.normalize)
            faults["non_finite"].add(found.non_finite, done)
            faults["zero"].add(found.zero, done)
            if not self.normalize:
                faults["not_unit"].add(found.not_unit, done)
            done += len(block)
            del block  # or it would stay in memory while the next one is read
            yield rows
        check_count(source, done)
        refuse_faults(source, faults)
        self.fingerprint = "xxh3:" + digest.hexdigest()
