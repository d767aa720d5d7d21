"""`gcbs apply` against plain Python: rows byte for byte, in plan order, for every format, alone and in shards."""

import csv
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import tarfile
from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running import run_gcbs, run_python

from gcbs_cli.apply.parquet_rows import ParquetRows
from gcbs_cli.apply.reorder import find_files, reorder
from gcbs_cli.data.files import stamp_file
from gcbs_cli.system.errors import BadInput

ROWS = 500
TINY, AMPLE = 1 << 12, 1 << 28
MODES = pytest.mark.parametrize("memory", [AMPLE, TINY], ids=["all at once", "some rows at once"])


def order(rows=ROWS):
    return np.random.default_rng(rows).permutation(rows)


JSON_LINES = [json.dumps({"row": i, "text": "é\u2028" * (i % 7)}, ensure_ascii=False) for i in range(ROWS)]
BYTE_KINDS = {
    "jsonl": (b"", [f"{line}\n".encode() for line in JSON_LINES]),
    "csv": (b"id,text\r\n", [b'%d,"a ""quoted""\nline, %d"\r\n' % (i, i) for i in range(ROWS)]),
}
"""What a file begins with, and the bytes of each row."""


def run(perm, data, output, memory=AMPLE):
    return reorder(perm, find_files(str(data)), output, memory=memory)


def tar_of(samples):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in itertools.chain(*samples):
            member = tarfile.TarInfo(name)
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return file.getvalue()


def header_of(kind, size=0):
    """The first block of an archive whose member is of this kind."""
    member = tarfile.TarInfo("a.txt")
    member.type, member.size = kind, size
    return member.tobuf()


@MODES
def test_samples_of_a_tar_stay_whole(memory, tmp_path):
    """Two members a sample, in folders, with names too long for a plain header."""
    stems = [f"{'é' * (i % 90)}/{i // 2}-{i % 2}" for i in range(ROWS)]
    samples = [[(f"{stem}.txt.gz", stem.encode() * (i % 50)), (f"{stem}.json", b"{}")] for i, stem in enumerate(stems)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "0.tar").write_bytes(tar_of([]))
    (tmp_path / "data" / "1.tar").write_bytes(tar_of([[("folder/", b"")], *samples]))
    perm = order()
    assert run(perm, tmp_path / "data", tmp_path / "out", memory) == [0, ROWS]
    with tarfile.open(tmp_path / "out" / "1.tar") as archive:
        found = [(member.name, archive.extractfile(member).read()) for member in archive if member.isfile()]
    assert found == [member for row in perm for member in samples[row]]


@MODES
@pytest.mark.parametrize("kind", BYTE_KINDS)
def test_shards_keep_names_and_sizes_and_rows_their_bytes(kind, memory, tmp_path):
    begin, rows = BYTE_KINDS[kind]
    cuts = [0, 100, 100, 350, ROWS] if kind == "csv" else [0, 100, 350, ROWS]
    (tmp_path / "data").mkdir()
    names = [f"part-{number}.{kind}" for number in range(8, 8 + len(cuts) - 1)]  # part-9 before part-10
    for name, start, stop in zip(names, cuts, cuts[1:], strict=False):
        (tmp_path / "data" / name).write_bytes(begin + b"".join(rows[start:stop]))
    assert run(order(), tmp_path / "data", tmp_path / "out", memory) == np.diff(cuts).tolist()
    planned = [rows[i] for i in order()]
    for name, start, stop in zip(names, cuts, cuts[1:], strict=False):
        assert (tmp_path / "out" / name).read_bytes() == begin + b"".join(planned[start:stop])
    with pytest.raises(BadInput):
        run(order(3), tmp_path / "data", tmp_path / "of fewer rows", memory)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "out"]


@MODES
@pytest.mark.parametrize("shards", [1, 3])
def test_parquet(shards, memory, tmp_path):
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int32()),
            "text": [None if i % 11 == 0 else "word " * (i % 9) for i in range(ROWS)],
            "kind": pa.array([f"k{i % 5}" for i in range(ROWS)]).dictionary_encode(),
            "vector": pa.array([[float(i), i / 2] for i in range(ROWS)], pa.list_(pa.float32(), 2)),
            "nested": [{"a": i, "b": [i] * (i % 3)} for i in range(ROWS)],
        },
        metadata={"made": "by a test"},
    )
    (tmp_path / "data").mkdir()
    each = -(-ROWS // shards)
    for number in range(shards):
        path = tmp_path / "data" / f"{number}.parquet"
        pq.write_table(table.slice(number * each, each), path, row_group_size=50)
    if shards > 1:
        pq.ParquetWriter(tmp_path / "data" / f"{shards}.parquet", table.schema).close()  # one without row groups
    data, out = (tmp_path / "data", tmp_path / "out") if shards > 1 else (path, tmp_path / "out.parquet")
    run(order(), data, out, memory)
    written = sorted(out.iterdir()) if shards > 1 else [out]
    found = pa.concat_tables([pq.read_table(path) for path in written])
    assert found.to_pylist() == table.take(pa.array(order())).to_pylist()
    assert found.schema.equals(pq.read_schema(tmp_path / "data" / "0.parquet"), check_metadata=True)
    first = pq.read_metadata(written[0]).row_group(0)
    assert first.num_rows in range(40, 60) if memory == AMPLE else first.num_rows < 40


@given(
    st.lists(st.lists(st.text("ab,\"\n\r '", max_size=6), min_size=2, max_size=2), min_size=1, max_size=12),
    st.sampled_from(["\r\n", "\n"]),
)
@settings(max_examples=60)
def test_any_csv_by_the_standard(tmp_path_factory, records, end):
    folder = tmp_path_factory.mktemp("csv")
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([["p", "q"], *records])
    (folder / "d.csv").write_text(text.getvalue(), newline="")
    perm = order(len(records))
    run(perm, folder / "d.csv", folder / "o.csv", 64)
    with (folder / "o.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["p", "q"], *[records[i] for i in perm]]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"1\n2\n3", b"3\n1\n2\n"),
        (b"a\r\nb\r\nc\r\n", b"c\r\na\r\nb\r\n"),
        (b"\xef\xbb\xbfa\n\nb\r\n\r\nc\n \t\n\n", b"\xef\xbb\xbfc\na\nb\r\n"),
    ],
    ids=["no-last-line-end", "windows", "mark-and-empty-lines"],
)
def test_line_ends(given, expected, tmp_path):
    (tmp_path / "d.jsonl").write_bytes(given)
    run(np.array([2, 0, 1]), tmp_path / "d.jsonl", tmp_path / "o.jsonl")
    assert (tmp_path / "o.jsonl").read_bytes() == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("d.jsonl", b"a\nb\n", "2 rows, the plan 3"),
        ("d.jsonl", b"a\nb\nc\nd\n", "4 rows, the plan 3"),
        ("d.jsonl", b'{"a": 1}\n{"a": 2}\n{"a"', "the last line is no whole JSON"),
        ("d.csv", b'h\na\n"b\nc\n', "ends inside quotes"),
        ("d.parquet", b"nonsense", "a whole Parquet file"),
        ("d.jsonl", "a\nb\nc\n".encode("utf-16-le"), "found a NUL, expected text in UTF-8"),
        ("d.tar", 2 * tar_of([[("a.txt", b"a")], [("b.txt", b"b")]]), "data after its end"),
        ("d.tar", tar_of([[("a.txt", b"a")]])[:1024] + b"damaged", "data after its end"),
        ("d.tar", b"no archive" * 100, "not a tar archive"),
        ("d.tar", header_of(tarfile.LNKTYPE), "a.txt is a link"),
        ("d.tar", header_of(tarfile.GNUTYPE_LONGNAME, 1 << 30), "a name or attributes of 1,073,741,824 bytes"),
        ("d.jsonl", b"", "the data has 0 rows, the plan 3"),
        ("d.txt", b"a\n", "expected files of one kind"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(name, content, said, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=said):
        run(np.array([2, 0, 1]), tmp_path / name, tmp_path / f"out{Path(name).suffix}")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_long_rows_after_short_ones_count_as_long(tmp_path):
    pq.write_table(pa.table({"text": ["short"] * 1000 + ["long" * 1000] * 100}), tmp_path / "d.parquet")
    sizes = ParquetRows([stamp_file(str(tmp_path / "d.parquet"))]).row_bytes
    assert sizes[:900].max() < 200
    assert sizes[-90:].min() > 4000


def test_timestamps_of_any_year_stay_what_they_are(tmp_path):
    moments = [datetime(9999, 12, 31), datetime(1, 1, 1), datetime(2024, 2, 29, 1, 2, 3, 456789)]
    table = pa.table({"at": pa.array(moments, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "d.parquet", use_deprecated_int96_timestamps=True)
    run(np.array([2, 0, 1]), tmp_path / "d.parquet", tmp_path / "o.parquet")
    assert pq.read_table(tmp_path / "o.parquet")["at"].to_pylist() == [moments[row] for row in (2, 0, 1)]


def test_dictionaries_inside_other_columns_are_reordered_too(tmp_path):
    words = pa.array(["a", "b", "a"]).dictionary_encode()
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), words)
    table = pa.table({"list": lists, "struct": pa.StructArray.from_arrays([words], names=["word"])})
    for rows in (3, 1):  # pyarrow reads no batch of them that reaches over two row groups
        pq.write_table(table, tmp_path / "d.parquet", row_group_size=rows)
        run(np.array([2, 0, 1]), tmp_path / "d.parquet", tmp_path / f"o{rows}.parquet")
        file = pq.ParquetFile(tmp_path / f"o{rows}.parquet")
        found = [row for group in range(file.num_row_groups) for row in file.read_row_group(group).to_pylist()]
        assert found == table.take(pa.array([2, 0, 1])).to_pylist()


def test_command_reads_a_plan_from_stdin(gcbs, tmp_path):
    (tmp_path / "d.jsonl").write_bytes(b"a\nb\nc\n")

    def apply(*words):
        return gcbs("apply", "-p", "-", tmp_path / "d.jsonl", "-o", *words, stdin="2\n0\n1\n")

    assert apply(tmp_path / "out").exit_code == 2
    done = apply(tmp_path / "out.jsonl", "--json")
    assert (done.exit_code, json.loads(done.stdout)["output"]) == (0, str(tmp_path / "out.jsonl"))
    assert (tmp_path / "out.jsonl").read_text() == "c\na\nb\n"
    again = apply(tmp_path / "out.jsonl")
    assert (again.exit_code, "exists" in again.stderr) == (2, True)
    assert apply(tmp_path / "d.jsonl", "-f").exit_code == 2


LIMITED = ("--max-memory", "64M", "-q")
LINE = 2048
LARGE_ROWS = 150_000  # 300 MB
PEAK = """
import re, sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from gcbs_cli.cli.app import main
with suppress(SystemExit):
    main()
print(int(re.search("VmHWM:(.*) kB", Path("/proc/self/status").read_text())[1]) >> 10)
"""


@pytest.mark.parametrize(("kind", "most"), [("jsonl", 200), ("parquet", 320)])
def test_data_larger_than_memory(kind, most, tmp_path):
    """300 MB, of which 64 are to be in memory at a time, beside what Python and its libraries take."""
    path, out, perm = tmp_path / f"d.{kind}", tmp_path / f"o.{kind}", order(LARGE_ROWS)
    write_lines(path, LARGE_ROWS) if kind == "jsonl" else write_table(path)
    np.save(tmp_path / "perm.npy", perm)
    assert int(run_python(PEAK, "apply", path, "-p", tmp_path / "perm.npy", "-o", out, *LIMITED)) < most
    ids = read_lines(out) if kind == "jsonl" else pq.read_table(out, columns=["id"]).column(0).to_numpy()
    np.testing.assert_array_equal(ids, perm)


def write_lines(path, rows):
    with path.open("wb") as file:
        file.writelines(b"%012d" % row + b"x" * (LINE - 13) + b"\n" for row in range(rows))


def read_lines(path):
    with path.open("rb") as file:
        return [int(line[:12]) for line in file]


def write_table(path):
    schema = pa.schema({"id": pa.int64(), "text": pa.binary(LINE)})
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, LARGE_ROWS, 5000):
            text = pa.array([bytes(LINE)] * 5000, pa.binary(LINE))
            writer.write_table(pa.table([np.arange(start, start + 5000), text], schema=schema))


KILLED = """
import os, signal
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
from gcbs_cli.cli.app import main
main()
"""


def test_killed_while_writing_leaves_nothing(tmp_path):
    rows = 2000
    (tmp_path / "data").mkdir()
    write_lines(tmp_path / "data" / "a.jsonl", rows)
    (tmp_path / "data" / "b.jsonl").touch()
    np.save(tmp_path / "perm.npy", order(rows))
    words = ("apply", "-p", tmp_path / "perm.npy", tmp_path / "data", "-o", tmp_path / "out", *LIMITED)
    assert subprocess.run([sys.executable, "-c", KILLED, *map(str, words)]).returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    (left,) = tmp_path.glob(".out.*")
    os.utime(left, (0, 0))
    run_gcbs(*words, check=True)
    assert not list(tmp_path.glob(".out.*"))  # what a run left that was killed long ago is gone
    np.testing.assert_array_equal(read_lines(tmp_path / "out" / "a.jsonl"), order(rows))
