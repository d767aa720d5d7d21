"""Arrow IPC files and streams (`.arrow`, `.feather`), offered like `pyarrow.parquet.ParquetFile`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_FILE_MAGIC: Final = b"ARROW1"


@dataclass(frozen=True)
class Counted:
    """What a reader asks of the metadata."""

    num_rows: int


class ArrowFile:
    """An open Arrow file: `schema_arrow`, `metadata.num_rows` and `iter_batches`, one record batch in memory at a time.

    Read, never mapped: a mapped file that becomes shorter would end the process.
    """

    def __init__(self, stream: Any) -> None:
        import pyarrow as pa

        self._stream = stream
        self._is_file = stream.read(len(_FILE_MAGIC)) == _FILE_MAGIC
        stream.seek(0)
        self._reader = pa.ipc.open_file(stream) if self._is_file else pa.ipc.open_stream(stream)
        self.schema_arrow = self._reader.schema
        self._rows: int | None = None

    def __enter__(self) -> "ArrowFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    @property
    def metadata(self) -> Counted:
        """The number of rows; a stream does not say it, so that it is read through once."""
        if self._rows is None:
            self._rows = sum(batch.num_rows for batch in self._batches())
        return Counted(self._rows)

    def iter_batches(self, rows: int, columns: list[str], use_threads: bool = False) -> Iterator[Any]:
        """Record batches of at most `rows` rows with these columns."""
        for batch in self._batches():
            chosen = batch.select(columns)
            for start in range(0, chosen.num_rows, rows):
                yield chosen.slice(start, rows)

    def _batches(self) -> Iterator[Any]:
        import pyarrow as pa

        if self._is_file:
            for number in range(self._reader.num_record_batches):
                yield self._reader.get_batch(number)
            return
        self._stream.seek(0)
        yield from pa.ipc.open_stream(self._stream)
