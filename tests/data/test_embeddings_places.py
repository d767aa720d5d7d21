"""Embeddings in linked and partitioned folders and at remote addresses: always the same rows."""

import csv
import io
import json
import socket
import sys
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from embedding_files import read_unit_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from running import LONGEST_WAIT

from gcbs_cli.data import remote
from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.row_values import READERS, WITH_COLUMNS, ids_of, read_ids, read_row_values
from gcbs_cli.system.errors import BadInput, without_secrets

SAMPLE = Path(__file__).parents[2] / "sample_data"
ROWS = 230


@pytest.fixture(scope="module")
def table():
    return pq.read_table(SAMPLE / "pairs.parquet").slice(0, ROWS)


@pytest.fixture
def wanted(tmp_path, table):
    pq.write_table(table, tmp_path / "wanted.parquet")
    return fingerprints(str(tmp_path / "wanted.parquet"))


def fingerprints(x, y=None):
    return [read_unit_rows(source).fingerprint for source in open_pair(x, y)]


def test_the_names_of_rows(table, tmp_path):
    ids = table["id"].to_pylist()
    (tmp_path / "shards").mkdir()
    for start in (0, 100, 200):
        pq.write_table(table.slice(start, 100), tmp_path / "shards" / f"part-{start}.parquet")
    x, _ = open_pair(str(tmp_path / "shards"), None)
    assert read_ids(x, [99, 100, 229]) == {row: ids[row] for row in (99, 100, 229)}
    assert read_ids(x, [1], column="id") == {1: ids[1]}
    with pytest.raises(BadInput, match="--id-column"):
        read_ids(x, [1], column="name")
    x, _ = open_pair(str(SAMPLE / "x.npy"), str(SAMPLE / "y.npy"))
    assert read_ids(x, [1]) == {}


WRITERS = {
    ".npy": lambda path, rows: np.save(path, [row["id"] for row in rows]),
    ".parquet": lambda path, rows: pq.write_table(pa.Table.from_pylist(rows), path),
    ".jsonl": lambda path, rows: path.write_text("\n\n".join(map(json.dumps, rows))),
    ".csv": lambda path, rows: path.write_text("\n".join(map(",".join, [rows[0], *(row.values() for row in rows)]))),
    ".txt": lambda path, rows: path.write_text("".join(f"{row['id']}\n" for row in rows)),
}


@pytest.mark.parametrize("suffix", READERS)
def test_values_of_rows_in_every_format_by_column_or_as_the_only_one(tmp_path, suffix):
    path, values = tmp_path / f"ids{suffix}", ["b", "a", "b"]
    WRITERS[suffix](path, [{"id": value} for value in values])
    assert ids_of(read_row_values(str(path), "--groups", rows=3)).tolist() == [0, 1, 0]
    wrong = {"id": "expected .parquet, .jsonl, .csv; convert it"}
    if suffix in WITH_COLUMNS:
        WRITERS[suffix](path, [{"other": "z", "id": value} for value in values])
        assert read_row_values(str(path), "--groups", "id") == values
        found = "found the columns other, id; expected "
        wrong = {None: f"{found}one column, or its name", "ida": f"{found}the column ida; did you mean id"}
    for column, says in wrong.items():
        with pytest.raises(BadInput, match=f"--groups .*{suffix}: .*{says}"):
            read_row_values(str(path), "--groups", column)
    (tmp_path / "plain.jsonl").write_text('"b"\n7\n')
    with pytest.raises(BadInput, match="read 2 rows, expected 3, one for each row of the embeddings"):
        read_row_values(str(tmp_path / "plain.jsonl"), "--text", rows=3)


ODD_FILES = {
    "a mark at the start.txt": (b"\xef\xbb\xbfa\nb\na\n", [0, 1, 0]),
    "a mark at the start.csv": (b"\xef\xbb\xbfid\na\nb\na\n", [0, 1, 0]),
    "other ends of lines.txt": ("a\u2028\x0b\x0c\x85b\nb\r\nb".encode(), [0, 1, 1]),
    "no ids.txt": (b"a\n\n-1\nNaN\na\n", [0, 1, 2, 3, 0]),
    "no ids.csv": (b'id,t\na,b\n,"c\n"\n\n-1,d\na,e', [0, 1, 2, 0]),
    "no ids.jsonl": (b'{"id": null}\n{"id": NaN}\n{}\n{"id": -1}\n{"id": -1.0}\n{"id": ""}\n', [0, 1, 2, 3, 4, 5]),
    "long text.csv": (b"id\n" + 200_000 * b"a" + b"\nb\n", [0, 1]),
}
DAMAGED = {
    "wide.txt": "a\nb\n".encode("utf-16"),
    "wide without a mark.txt": "a\nb\n".encode("utf-16-le"),
    "no object.jsonl": b'null\n{"id": 1}\n',
    "a later one.jsonl": b'{"id": 1}\n"b"\n',
    "an open quote.csv": b'id,t\na,"b\nc,d\n',
    "a short line.csv": b"id,t\na,b\nc\n",
}


@pytest.mark.parametrize("name", ODD_FILES)
def test_marks_ends_of_lines_and_rows_without_an_id(tmp_path, name):
    data, numbers = ODD_FILES[name]
    (tmp_path / name).write_bytes(data)
    column = "id" if Path(name).suffix in WITH_COLUMNS else None
    assert ids_of(read_row_values(str(tmp_path / name), "--groups", column)).tolist() == numbers


def read_by_the_standard_library(suffix, text):
    """The values of the column `id`, or of all lines of plain text."""
    if suffix == ".csv":
        return [row["id"] for row in csv.DictReader(io.StringIO(text, newline=""), strict=True)]
    lines = text.split("\n")
    if suffix == ".jsonl":
        return [json.loads(line)["id"] for line in lines if line.strip()]
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


TEXTS = st.text("a,\"' \t\r\n\0\x0b\x0c\x1c\x85\u2028é😀\ufeff", max_size=6)


@given(
    st.lists(TEXTS | st.none(), min_size=2, max_size=9),
    st.sampled_from([".txt", ".csv", ".jsonl"]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"]),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_values_are_those_of_the_standard_library_or_refused(tmp_path_factory, values, suffix, end, encoding, is_ended):
    if suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerows([["t", "id"], *(["a\nb", value] for value in values)])
        text = text.getvalue()
    elif suffix == ".jsonl":
        text = "".join(json.dumps({"t": 1, "id": value}, ensure_ascii=False) + end for value in values)
    else:
        text = "".join((value or "").replace("\n", "") + end for value in values)
    text = text if is_ended else text.removesuffix(end)
    path = tmp_path_factory.getbasetemp() / f"values{suffix}"
    path.write_bytes(text.encode(encoding, errors="replace"))
    column = None if suffix == ".txt" else "id"
    try:
        found = read_row_values(str(path), "--groups", column)
    except BadInput:
        assert "\0" in text or encoding not in ("utf-8", "utf-8-sig")
    else:
        assert found == read_by_the_standard_library(suffix, path.read_bytes().decode("utf-8-sig"))


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_values_of_rows_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(DAMAGED[name])
    column = "id" if Path(name).suffix in WITH_COLUMNS else None
    with pytest.raises(BadInput, match=rf"--groups .*{name}: not a .* file, or damaged: "):
        read_row_values(str(tmp_path / name), "--groups", column)


def test_values_without_end_are_not_read_to_the_end(tmp_path):
    pq.write_table(pa.table({"id": pa.nulls(10**7)}), tmp_path / "nulls.parquet")
    before = time.process_time()
    with pytest.raises(BadInput, match="read 301 rows, expected 300"):
        read_row_values(str(tmp_path / "nulls.parquet"), "--groups", rows=300)
    assert time.process_time() - before < 1


def test_linked_folders_are_read_and_loops_of_links_refused(tmp_path, table, wanted):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "set").mkdir()
    pq.write_table(table.slice(0, 100), tmp_path / "set" / "part-0.parquet")
    pq.write_table(table.slice(100), tmp_path / "elsewhere" / "part-1.parquet")
    (tmp_path / "set" / "rest").symlink_to(tmp_path / "elsewhere")
    assert fingerprints(str(tmp_path / "set")) == wanted
    (tmp_path / "elsewhere" / "loop").symlink_to(tmp_path / "set")
    with pytest.raises(BadInput, match="found a link to a folder that is read already"):
        open_pair(str(tmp_path / "set"), None)


def test_a_partitioned_folder_in_natural_order(tmp_path, table, wanted):
    for number, (start, count) in {2: (0, 100), 10: (100, 130)}.items():
        part = tmp_path / "set" / f"day={number}"
        part.mkdir(parents=True)
        pq.write_table(table.slice(start, count), part / "part-0.parquet")
        (part / "_SUCCESS").touch()
        (part / ".part-0.parquet.crc").touch()
    assert fingerprints(str(tmp_path / "set")) == wanted
    (tmp_path / "set" / "day=2" / "readme.md").touch()
    with pytest.raises(BadInput, match=r"day=2/readme\.md"):
        open_pair(str(tmp_path / "set"), None)


@pytest.fixture
def memory(table):
    """An address whose folder holds the pairs in several forms."""
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://bucket/pairs.parquet", "wb") as file:
        pq.write_table(table, file)
    for number, part in ((2, table.slice(0, 100)), (10, table.slice(100))):
        for side in "xy":
            for name in (f"{side}/part-{number}", f"day/{side}/{number}/part-0"):
                with fsspec.open(f"memory://bucket/{name}.npy", "wb") as file:
                    np.save(file, np.array(part[side].to_pylist(), np.float16))
    yield "memory://bucket"
    fsspec.filesystem("memory").rm("/bucket", recursive=True)


def test_remote_file_folder_and_pattern_also_of_equal_names(memory, wanted):
    x, _ = open_pair(f"{memory}/pairs.parquet", None)
    assert (x.name, x.paths) == (f"{memory}/pairs.parquet:x", (f"{memory}/pairs.parquet",))
    assert len(read_ids(x, [0, 3])) == 2
    assert fingerprints(f"{memory}/x", f"{memory}/y/") == wanted
    assert fingerprints(f"{memory}/x/part-*.npy", f"{memory}/y/part-*.npy") == wanted
    assert fingerprints(f"{memory}/day/x/*/part-0.npy", f"{memory}/day/y/*/part-0.npy") == wanted


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("memory://bucket/none.npy", "file not found"),
        ("memory://bucket/x/none-*.npy", "found no files"),
        ("noproto://bucket/x.npy", "cannot be fetched"),
        ("memory://bucket/bad.npy", r"memory://bucket/bad\.npy: found no valid"),
    ],
)
def test_what_cannot_be_read_is_told_by_its_address(memory, url, said):
    import fsspec

    fsspec.filesystem("memory").pipe_file("/bucket/bad.npy", b"\x93NUMPY nothing")
    with pytest.raises(BadInput, match=said) as caught:
        open_pair(url, url)
    assert "gcbs-" not in str(caught.value)  # the folder of the copies


class _Served(SimpleHTTPRequestHandler):
    """A folder with an index page; it answers whatever query follows a name, as servers of signed addresses do."""

    asked: ClassVar[list[str]] = []

    def do_GET(self):
        if self.path == "/clouds.npy":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/keys.npy")
            self.end_headers()
        elif "silent" in self.path:
            self.send_response(200)
            self.send_header("Content-Length", "9")
            self.end_headers()
            time.sleep(LONGEST_WAIT)
        else:
            super().do_GET()

    def log_message(self, *_):
        self.asked.append(self.path)


@pytest.fixture
def web(memory, tmp_path):
    """The same files at an http address."""
    pytest.importorskip("aiohttp")
    import fsspec

    fsspec.filesystem("memory").get("/bucket/", str(tmp_path / "www") + "/", recursive=True)
    handler = partial(_Served, directory=str(tmp_path / "www"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        _Served.asked.clear()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_web_file_pattern_and_signed_address(web, wanted):
    assert fingerprints(f"{web}/pairs.parquet") == wanted
    assert len(_Served.asked) == 1  # fetched once, and not to see whether it is a folder
    assert fingerprints(f"{web}/pairs.parquet?download=true&sign=a/b%2Fc") == wanted
    assert fingerprints(f"{web}/x/part-*.npy", f"{web}/y/part-*.npy") == wanted
    for name in ("none.npy", "none", "x/none-*.npy"):
        with pytest.raises(BadInput, match="found no|file not found"):
            open_pair(f"{web}/{name}", f"{web}/{name}")


def test_a_server_that_says_no_more_is_given_up(web, monkeypatch):
    from fsspec.implementations.http import HTTPFileSystem

    monkeypatch.setattr("gcbs_cli.data.remote._SILENT_SECONDS", 0.5)
    monkeypatch.setattr(HTTPFileSystem, "_cache", {})  # of sessions with other limits
    with pytest.raises(BadInput, match=r"silent/x\.npy: cannot be fetched \(.*imeout"):
        open_pair(f"{web}/silent/x.npy", None)


def test_signatures_and_passwords_stay_out_of_what_is_written_down(web):
    signed = open_pair(f"{web}/pairs.parquet?sign=secret", None)[0]
    assert signed.paths == (f"{web}/pairs.parquet?…",)
    assert "secret" not in signed.name
    assert without_secrets("https://me:secret@host/x.npy") == "https://host/x.npy"
    address = "http://me:secret@127.0.0.1:9/x.npy?signature=hidden"
    with pytest.raises(BadInput, match="cannot be fetched") as caught:
        open_pair(address, address)
    assert "secret" not in str(caught.value)
    assert "hidden" not in str(caught.value)
    for word in ("x.npy?", "--quantile", "s3://bucket/part-*.npy", "a?b=c", "memory://x"):
        assert without_secrets(word) == word


@pytest.mark.parametrize("tail", ["?sign=a/b;range&X-Amz-Signature=secret", "#access_token=secret", "?a=b),secret"])
def test_what_gives_access_to_an_address_is_never_shown(tail):
    assert without_secrets(f"https://me:secret@host/x.npy{tail} is") == "https://host/x.npy?… is"


def test_nothing_is_fetched_from_where_clouds_keep_their_keys(web):
    clouds, chained = "http://169.254.169.254/keys.npy", "zip://keys.npy::http://169.254.169.254/keys.zip"
    for address in (f"{web}/clouds.npy", clouds, "http://[fe80::1]/keys.npy", chained):
        with pytest.raises(BadInput, match="link-local|found '::', expected one address"):
            open_pair(address, address)
    for host in ("::ffff:169.254.169.254", "fd00:ec2::254", "fe80::1%eth0"):
        with pytest.raises(PermissionError, match="link-local"):
            remote._socket((socket.AF_INET6, socket.SOCK_STREAM, 0, "", (host, 80)))


def test_without_fsspec_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(BadInput, match=r"gcbs\[remote\]"):
        open_pair("memory://elsewhere/x.npy", "memory://elsewhere/y.npy")
