"""What is reordered: files of one kind, and their rows as Arrow batches: bytes (lines of JSONL, records of CSV, rows of
.npy, samples of .tar) or the rows of Parquet files.
"""

import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gcbs_cli.data.files import FileStamp, list_files, one_line, open_unchanged, read_bytes, shown, stamp_file
from gcbs_cli.data.npy import read_header
from gcbs_cli.data.tables import open_table
from gcbs_cli.plan_file.writing import PathLike, check_outputs, explained, in_place, sync, temporary_folder
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import show_size

KINDS = {".npy": "npy", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".tsv": "csv"}
KINDS |= {".parquet": "parquet", ".tar": "tar"}
_BLOCK_BYTES = 1 << 22
_TRIAL_ROWS = 256
_WRITE_ROWS = 1 << 13
_OF_A_BATCH, _OF_A_COLUMN, _COPIES_READ = 30 << 20, 5 << 20, 4
"""What reading Parquet takes: for a batch, and for a row group copies of it, or of the pages of its columns (measured).
"""
_LEAST_ROWS_BYTES = 8 << 20
"""With less beside that, row groups would be so small that their metadata take more than the rows."""
_BOM = b"\xef\xbb\xbf"
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34

Write = Callable[[Any], None]


@dataclass(frozen=True)
class DataFiles:
    """Files of one kind, in the order in which their rows count; `single`: one file was named."""

    kind: str
    suffix: str
    stamps: tuple[FileStamp, ...]
    single: bool

    def targets(self, path: Path) -> list[Path]:
        """What is written for each: `path` itself for the one file that was named, else files of `path`, a folder."""
        return [path] if self.single else [path / os.path.basename(stamp.path) for stamp in self.stamps]


def find_files(data: str) -> DataFiles:
    """The files of a path, a folder or a glob pattern, in natural order (part-2 before part-10).

    Raises BadInput: nothing there, an unknown or mixed kind, an empty file.
    """
    paths = list_files(data) or [data]
    suffixes = {Path(path).suffix.lower() for path in paths}
    kinds = {KINDS.get(suffix) for suffix in suffixes}
    if None in kinds or len(kinds) > 1:
        found = ", ".join(sorted(suffix or "no suffix" for suffix in suffixes))
        raise BadInput(f"{shown(data)}: found {found}; expected files of one kind: {', '.join(KINDS)}")
    names = [os.path.basename(path) for path in paths]
    if len(set(names)) < len(names):
        raise BadInput(f"{shown(data)}: two files have the same name; they would overwrite each other in one folder")
    suffix = Path(paths[0]).suffix
    return DataFiles(KINDS[suffix.lower()], suffix, tuple(map(stamp_file, paths)), paths == [data])


def output_path(files: DataFiles, output: str, inputs: Iterable[PathLike] = (), *, force: bool) -> Path:
    """Where the result goes: a file with the input's suffix, or a new folder for shards.

    inputs: what is read beside the data. Raises BadInput when it cannot be written there, exists, or is read.
    """
    path = Path(output)
    if not files.single and os.path.lexists(path):
        raise BadInput(f"{output}: exists, but shards are written to a new folder; name another or remove this one")
    if files.single and path.suffix.lower() != files.suffix.lower():
        if path.suffix.lower() in KINDS:
            raise BadInput(f"{output}: the data is {files.suffix}; apply reorders, it does not convert")
        path = path.with_name(path.name + files.suffix)
    check_outputs([path], [*inputs, *(stamp.path for stamp in files.stamps)], force=force)
    return path


@contextmanager
def atomic_targets(files: DataFiles, path: Path) -> Iterator[list[Path]]:
    """One path to write for each input file; all appear together when the block ends without an exception.

    A single file is written through `writing.file`; a folder is filled under another name and renamed.
    """
    if files.single:
        yield files.targets(path)
        return
    with temporary_folder(path) as temporary:
        place = temporary / "shards"
        place.mkdir()
        yield files.targets(place)
        with explained(path):
            sync(place)
            place.rename(path)
        in_place(path)


@dataclass(frozen=True)
class ByteRows:
    """A file as rows of bytes."""

    stamp: FileStamp
    prefix: bytes
    """Comes before the rows and stays there: a header, a byte order mark."""
    layout: Any
    """What files of one data set have in common: columns, or shape and type of a row."""
    arrays: Callable[[], Iterator[Any]]
    """Yields all rows as Arrow arrays. Raises BadInput for a damaged file and for one that changes meanwhile."""
    suffix: bytes = b""
    """Comes after the rows."""


def open_lines(stamp: FileStamp, *, quoted: bool, header: bool) -> ByteRows:
    """Open JSONL, or CSV by RFC 4180: there, a line end inside quotes belongs to the record.

    A last line without an end gets one, for it may be followed by another. Empty lines are no rows and are dropped.
    Raises BadInput.
    """
    with open_unchanged(stamp) as file:
        prefix = _BOM if file.read(len(_BOM)) == _BOM else b""
    if header:
        data, bounds = next(_records(stamp, b"", quoted))
        prefix = data[: bounds[1]]

    def arrays() -> Iterator[Any]:
        for data, bounds in _records(stamp, prefix, quoted):
            begins = np.frombuffer(data, np.uint8)[bounds[:-1]]
            filled = (begins != _NEWLINE) & (begins != _RETURN)
            rows = _array(data, bounds)
            yield rows if filled.all() else rows.filter(filled)

    return ByteRows(stamp, prefix, prefix.split() if header else None, arrays)


def open_npy_rows(stamp: FileStamp) -> ByteRows:
    """Open a .npy array of any shape and type of fixed size, along its first axis. Raises BadInput."""
    with open_unchanged(stamp) as file:
        shape, fortran_order, stored, offset = read_header(stamp, file)
        if stored.hasobject or not shape or 0 in (stored.itemsize, *shape) or (fortran_order and len(shape) > 1):
            raise BadInput(
                f"{stamp.shown}: found an array of shape {shape}, expected rows of numbers or non-empty"
                " texts in C order; write it with np.save"
            )
        prefix = read_bytes(file, offset, 0)
    bounds = offset + np.arange(shape[0] + 1) * ((stamp.size - offset) // shape[0])
    return ByteRows(stamp, prefix, (stored.str, shape[1:]), partial(_pieces, stamp, bounds))


def open_samples(stamp: FileStamp) -> ByteRows:
    """Open a .tar by webdataset's samples: members in a row whose names are the same up to their first dot.

    Raises BadInput.
    """
    try:
        with open_unchanged(stamp) as file:
            members = tarfile.TarFile(fileobj=file).getmembers()
    except tarfile.TarError as error:
        raise BadInput(f"{stamp.shown}: not a tar archive, or damaged: {one_line(error)}") from None
    if not members:
        raise BadInput(f"{stamp.shown}: found an empty archive, expected samples")
    begins = [next(sample).offset for _, sample in groupby(members, key=_sample_name)]
    end = members[-1].offset_data + -(-members[-1].size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    bounds = np.array([*begins, end], np.int64)
    return ByteRows(stamp, b"", None, partial(_pieces, stamp, bounds), suffix=bytes(2 * tarfile.BLOCKSIZE))


def _sample_name(member: tarfile.TarInfo) -> tuple[str, str]:
    folder, name = os.path.split(member.name)
    return folder, name.split(".")[0]


def _pieces(stamp: FileStamp, bounds: Ints) -> Iterator[Any]:
    """Yield the rows that begin at these bytes of a file, each where the one before ends, a few MiB at a time."""
    at_once = max(1, _BLOCK_BYTES * (len(bounds) - 1) // int(bounds[-1]))
    with open_unchanged(stamp) as file:
        for start in range(0, len(bounds) - 1, at_once):
            part = bounds[start : start + at_once + 1]
            yield _array(read_bytes(file, int(part[-1] - part[0]), int(part[0])), part - part[0])


def _array(data: bytes, bounds: Ints) -> Any:
    """Return rows as an array of large binary values; row i is `data[bounds[i]:bounds[i + 1]]`."""
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(bounds) - 1, buffers)


def _records(stamp: FileStamp, prefix: bytes, quoted: bool) -> Iterator[tuple[bytes, Ints]]:
    """Yield the records after the prefix as bytes and bounds; the last one gets a line end like the prefix's."""
    rest = b""
    with open_unchanged(stamp) as file:
        file.seek(len(prefix))
        while data := file.read(max(_BLOCK_BYTES, len(rest))):
            rest += data
            ends = _ends(rest, quoted)
            if len(ends):
                whole = int(ends[-1])
                yield rest[:whole], np.concatenate([[0], ends])
                rest = rest[whole:]
    if rest:
        ends = _ends(rest + b"\n", quoted)
        if not len(ends) or ends[-1] != len(rest) + 1:
            raise BadInput(f"{stamp.shown}: ends inside quotes; a quote is missing or wrongly doubled")
        line_end = b"\r\n" if prefix.endswith(b"\r\n") else b"\n"
        yield rest + line_end, np.array([0, len(rest) + len(line_end)], np.int64)


def _ends(data: bytes, quoted: bool) -> Ints:
    """Return one past each line end that ends a record; `data` starts with a record."""
    values = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(values == _NEWLINE)
    if quoted:
        quotes = np.flatnonzero(values == _QUOTE)
        ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return ends.astype(np.int64) + 1


class ByteData:
    """Rows of bytes, byte for byte. Raises BadInput when a file is damaged or unlike the first.

    row_bytes: of a row in memory, about. group_rows: how many are written together. reading: bytes that reading takes
    beside the rows.
    """

    group_rows, reading = _WRITE_ROWS, 0

    def __init__(self, files: DataFiles, rows: int, *, header: bool) -> None:
        self.schema = pa.schema({"row": pa.large_binary()})
        self.row_bytes = sum(stamp.size for stamp in files.stamps) / rows + 8
        quoted = files.kind == "csv"
        of_lines = partial(open_lines, quoted=quoted, header=quoted and header)
        open_rows = {"npy": open_npy_rows, "tar": open_samples}.get(files.kind, of_lines)
        self._sources = [open_rows(stamp) for stamp in files.stamps]
        first = self._sources[0]
        for source in self._sources[1:]:
            if source.layout != first.layout:
                what = "its header differs from that" if quoted else "its rows differ in shape or type from those"
                raise BadInput(f"{source.stamp.shown}: {what} of {first.stamp.shown}")

    def batches(self) -> Iterator[tuple[int, Any]]:
        """Yield all rows as record batches, each with the number of its file. Raises BadInput."""
        for number, source in enumerate(self._sources):
            for array in source.arrays():
                yield number, pa.record_batch([array], schema=self.schema)

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Write]:
        """Give the function that writes a table of rows to the file of a number."""
        file.write(self._sources[number].prefix)

        def write(table: Any) -> None:
            for array in table.column(0).chunks:
                offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
                file.write(memoryview(array.buffers()[2])[offsets[0] : offsets[-1]])

        yield write
        file.write(self._sources[number].suffix)


class TableData:
    """The rows of Parquet files of one schema.

    Raises BadInput when one is damaged or differs, or takes more than `memory` to read.
    """

    def __init__(self, files: DataFiles, memory: int | None) -> None:
        self._stamps, self.reading = files.stamps, 0
        with open_table(self._stamps[0]) as table:
            self.schema, metadata = table.schema, table.parquet.metadata
            group = metadata.row_group(0) if metadata.num_row_groups else None
        for stamp in self._stamps:
            with open_table(stamp) as table:
                if not table.schema.equals(self.schema):
                    raise BadInput(f"{stamp.shown}: its columns differ from those of {self._stamps[0].shown}")
                self.reading = max(self.reading, _reading(table.parquet.metadata))
                least = self.reading + _LEAST_ROWS_BYTES
                if memory is not None and least > memory:
                    raise BadInput(
                        f"--max-memory {show_size(memory)}: {stamp.shown} would need about {show_size(least)};"
                        f" --max-memory {ceil(least / 2**20)}M would fit"
                    )
        self.group_rows = max(group.num_rows, 1) if group else 1
        self._compression, self.row_bytes = "snappy", 1.0
        trial = next((batch for _, batch in self._read(_TRIAL_ROWS) if batch.num_rows), None)
        if trial is not None:  # encoded sizes say little
            self.row_bytes = max(trial.get_total_buffer_size() / trial.num_rows, 1.0)
        if group and group.num_rows and group.num_columns:  # once read: pyarrow aborts on a damaged column
            self._compression = group.column(0).compression.lower().replace("uncompressed", "none")

    def batches(self) -> Iterator[tuple[int, Any]]:
        """As those of `ByteData`."""
        return self._read(rows_at_once(self.row_bytes))

    def _read(self, rows: int) -> Iterator[tuple[int, Any]]:
        for number, stamp in enumerate(self._stamps):
            with open_table(stamp) as table:
                for group in range(table.parquet.num_row_groups):  # a batch of two would be of two dictionaries
                    for batch in table.parquet.iter_batches(batch_size=rows, row_groups=[group], use_threads=False):
                        batch.validate(full=True)
                        yield number, batch

    @contextmanager
    def writer(self, number: int, file: BinaryIO) -> Iterator[Write]:
        """As that of `ByteData`."""
        with pq.ParquetWriter(file, self.schema, compression=self._compression) as writer:
            yield lambda table: writer.write_table(table.unify_dictionaries(), row_group_size=table.num_rows)


def _reading(metadata: Any) -> int:
    """Bytes that reading a Parquet file takes: for a batch, and for the columns of its largest row group."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    sizes = (min(_COPIES_READ * group.total_byte_size, _OF_A_COLUMN * group.num_columns) for group in groups)
    return _OF_A_BATCH + max(sizes, default=0)


def rows_at_once(row_bytes: float) -> int:
    """Rows of a batch of a few MiB."""
    return max(1, min(1 << 16, int(_BLOCK_BYTES / row_bytes)))
