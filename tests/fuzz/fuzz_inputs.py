"""Makes files that no reader should trust: valid ones, valid ones damaged, and ones that lie about themselves."""

import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Make = Callable[[random.Random], bytes]

HUGE = [10**12, 10**18, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -1, -2, -(2**63), 0, 1]
FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-45, 1e-40, 3.4e38, 1e39, 1.7e308, 65504.0, 1.0, -1.0]


def _array(rng: random.Random) -> np.ndarray:
    """A small matrix of some float type, now and then with values at the edge of what floats hold."""
    rows, dim = rng.choice([0, 1, 2, 3, 9, 40]), rng.choice([0, 1, 2, 5, 16])
    kind = rng.choice(["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"])
    values = np.random.default_rng(rng.randrange(2**32)).normal(size=(rows, dim))
    for _ in range(rng.choice([0, 0, 1, 3])):
        if values.size:
            values[rng.randrange(rows), rng.randrange(dim)] = rng.choice(FLOATS)
    if rng.random() < 0.1 and rows:
        values[rng.randrange(rows)] = rng.choice(FLOATS)
    with np.errstate(over="ignore"):
        return values.astype(kind)


def npy_valid(rng: random.Random) -> bytes:
    file = io.BytesIO()
    array = np.asfortranarray(_array(rng)) if rng.random() < 0.2 else _array(rng)
    np.lib.format.write_array(file, array, version=rng.choice([(1, 0), (2, 0), None]))
    return file.getvalue()


def npy_other_types(rng: random.Random) -> bytes:
    """Objects (pickles), strings, records, integers, dates, complex numbers, other numbers of dimensions."""
    choices: list[Any] = [
        np.array([{"a": 1}, [2]], object),
        np.array([["a", "b"]]),
        np.zeros((3, 4), np.dtype([("x", "f4"), ("y", "f4")])),
        np.zeros((3, 4), np.int64),
        np.zeros((3, 4), np.bool_),
        np.zeros((3, 4), np.complex64),
        np.zeros((3, 4), "M8[s]"),
        np.zeros((3, 4), np.longdouble),
        np.zeros((3,), np.float32),
        np.zeros((), np.float32),
        np.zeros((2, 3, 4), np.float32),
        np.zeros((3, 4), "V2"),
        np.zeros((1,) * 32, np.float32),
    ]
    file = io.BytesIO()
    np.lib.format.write_array(file, rng.choice(choices), allow_pickle=True)
    return file.getvalue()


def _npy_header(text: bytes, version: bytes = b"\x01\x00", length: int | None = None) -> bytes:
    size = len(text) if length is None else length
    packed = struct.pack("<H", size & 0xFFFF) if version == b"\x01\x00" else struct.pack("<I", size & 0xFFFFFFFF)
    return b"\x93NUMPY" + version + packed + text


def npy_lying_header(rng: random.Random) -> bytes:
    """Shapes of 10¹² rows, negative and huge sizes, expressions where a tuple should be, deep nesting."""
    shape: Any = tuple(rng.choice([*HUGE, 3, 4]) for _ in range(rng.choice([0, 1, 2, 2, 2, 3, 40])))
    descr = rng.choice(
        ["<f4", "<f8", "|O", "<f2", "|V2", "<f16", ">f4", "<i8", "|S0", "<U9999999999", "f4,f4", "", "x"]
    )
    body = rng.choice(
        [
            repr({"descr": descr, "fortran_order": rng.random() < 0.3, "shape": shape}),
            repr({"descr": descr, "fortran_order": False}),
            repr({"descr": descr, "fortran_order": 2, "shape": (3, 4)}),
            "{'descr': '<f4', 'fortran_order': False, 'shape': __import__('os').getcwd()}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "(" * rng.choice([10, 500, 5000]) + ")}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9" + "9" * rng.choice([100, 4000, 9000]) + ", 4)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1e3, 4)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 4)}",
            "[" * 200,
            "\x00" * 100,
        ]
    )
    version = rng.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"])
    length = rng.choice([None, None, None, 0, 1, 65535, 2**31, 2**32 - 1])
    return _npy_header(body.encode("latin1") + b"\n", version, length) + rng.randbytes(rng.choice([0, 16, 48, 1000]))


def zip_bomb(rng: random.Random) -> bytes:
    """An .npz in the clothes of another file, with a member that grows a thousandfold."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(rng.choice(["x.npy", "arr_0.npy"]), _npy_header(b"{}") + b"\0" * rng.choice([10, 1 << 20]))
    return file.getvalue()


def _parquet(table: pa.Table, rng: random.Random) -> bytes:
    file = io.BytesIO()
    pq.write_table(
        table,
        file,
        compression=rng.choice(["none", "snappy", "zstd", "gzip"]),
        row_group_size=rng.choice([1, 3, 1000]),
        use_dictionary=rng.random() < 0.5,
        data_page_size=rng.choice([64, 1 << 20]),
    )
    return file.getvalue()


def _lists(rng: random.Random) -> pa.Array:
    with np.errstate(over="ignore"):
        values = _array(rng).astype(rng.choice(["f2", "f4", "f8"]))
    rows, dim = values.shape
    kind = pa.from_numpy_dtype(values.dtype)
    flat = pa.array(values.reshape(-1), kind)
    if rng.random() < 0.4 and dim:
        return pa.FixedSizeListArray.from_arrays(flat, dim)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * dim)
    return pa.ListArray.from_arrays(offsets, flat)


def parquet_valid(rng: random.Random) -> bytes:
    x = _lists(rng)
    y = _lists(rng) if rng.random() < 0.3 else x
    if len(x) != len(y):
        y = x
    return _parquet(pa.table({"x": x, "y": y}), rng)


def parquet_other_types(rng: random.Random) -> bytes:
    """Nested lists, structs, maps, nulls, dictionaries, null-typed columns, ragged lists, no columns, no rows."""
    columns: list[Any] = [
        pa.array([[[1.0, 2.0]], [[3.0]]], pa.list_(pa.list_(pa.float32()))),
        pa.array([{"a": 1.0}, {"a": 2.0}]),
        pa.array([[("a", 1.0)], []], pa.map_(pa.string(), pa.float32())),
        pa.nulls(2),
        pa.array([None, None], pa.list_(pa.float32())),
        pa.array([[1.0, None], [2.0, 3.0]], pa.list_(pa.float32())),
        pa.array([[1.0, 2.0], [2.0]], pa.list_(pa.float64())),
        pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
        pa.array(["a", "a"]).dictionary_encode(),
        pa.array([[1, 2], [3, 4]], pa.list_(pa.int64())),
        pa.array([[], []], pa.list_(pa.float32())),
        pa.array([[None], [None]], pa.list_(pa.null())),
        pa.array([b"12345678", b"12345678"], pa.binary(8)),
        pa.array([1.0, 2.0]),
        pa.array([["a"], ["b"]], pa.list_(pa.string())),
        pa.array([[1.0], [2.0]], pa.large_list(pa.float32())),
        pa.array([[True], [False]], pa.list_(pa.bool_())),
        pa.array([[1.0, 2.0], [1.0, 3.0]], pa.list_(pa.float32())).take(pa.array([0, 1, 0])).slice(1, 2),
    ]
    names = rng.sample(["x", "y", "embedding", "a\nb", "", "x"], k=rng.choice([1, 2, 3]))
    chosen = [rng.choice(columns) for _ in names]
    table = pa.Table.from_arrays(chosen, names=names)
    return _parquet(table.slice(0, 0) if rng.random() < 0.1 else table, rng)


def arrow_valid(rng: random.Random) -> bytes:
    x = _lists(rng)
    table = pa.table({"x": x, "y": x})
    file = io.BytesIO()
    new = pa.ipc.new_file if rng.random() < 0.5 else pa.ipc.new_stream
    with new(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


def safetensors_valid(rng: random.Random) -> bytes:
    from safetensors.numpy import save

    with np.errstate(over="ignore"):
        x = np.ascontiguousarray(_array(rng).astype(rng.choice(["<f2", "<f4", "<f8"])))
    return save({"x": x, "y": x, "rest": np.zeros(3, np.int32)})


def safetensors_lying_header(rng: random.Random) -> bytes:
    """Offsets that overlap, leave the file or run backwards; shapes of 10¹² rows; headers of any length and depth."""
    size = rng.choice([0, 24, 96])

    def entry() -> Any:
        begin = rng.choice([0, 0, 12, 24, *HUGE])
        return rng.choice(
            [
                {
                    "dtype": rng.choice(["F32", "F16", "BF16", "F64", "I8", "F8_E4M3", "", "x" * 999, 3, None]),
                    "shape": [rng.choice([2, 3, 4, *HUGE]) for _ in range(rng.choice([0, 1, 2, 2, 3]))],
                    "data_offsets": [begin, rng.choice([begin, begin + 24, size, *HUGE])],
                },
                {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
                {"dtype": "F32", "shape": "no", "data_offsets": [0, 24]},
                {"dtype": "F32", "shape": [2.0, 3], "data_offsets": [0, 24]},
                {"dtype": "F32", "shape": [True, 3], "data_offsets": [0]},
                {},
                [],
                None,
                7,
            ]
        )

    header: Any = {
        name: entry() for name in rng.sample(["x", "y", "__metadata__", "z", "a\nb"], k=rng.choice([1, 2, 3]))
    }
    text = rng.choice(
        [json.dumps(header), json.dumps([header]), "[" * 100_000, "{}", "", '{"x":', '{"x": NaN}', "\xff"]
    )
    data = text.encode("latin1") if text == "\xff" else text.encode()
    length = rng.choice([len(data), len(data), len(data), 0, 1, 2**31, 2**63, 2**64 - 1])
    return struct.pack("<Q", length) + data + rng.randbytes(size)


def permutation_npy(rng: random.Random) -> bytes:
    count = rng.choice([0, 1, 2, 20, 300])
    values = np.random.default_rng(rng.randrange(2**32)).permutation(count)
    kind = rng.choice(["<i8", ">i8", "<i4", "<u8", "<u2", "<f8", "|b1", "<i8", "<i8"])
    file = io.BytesIO()
    np.lib.format.write_array(file, values.astype(kind).reshape(rng.choice([(-1,), (-1, 1)])))
    return file.getvalue()


def permutation_parquet(rng: random.Random) -> bytes:
    count = rng.choice([0, 1, 2, 20, 300])
    index = np.random.default_rng(rng.randrange(2**32)).permutation(count)
    column = rng.choice(
        [
            pa.array(index, pa.int64()),
            pa.array(index.astype(np.uint64)),
            pa.array(index.astype(np.float64)),
            pa.array([None, *index[1:].tolist()] if count else [], pa.int64()),
            pa.nulls(count),
            pa.array([[int(i)] for i in index], pa.list_(pa.int64())),
            pa.array([str(i) for i in index], pa.string()).dictionary_encode(),
        ]
    )
    names = rng.choice([["index"], ["index", "batch"], ["other"], ["index", "index"]])
    return _parquet(pa.Table.from_arrays([column] * len(names), names=names), rng)


def permutation_text(rng: random.Random) -> bytes:
    count = rng.choice([0, 1, 2, 20, 300])
    lines = [str(i) for i in np.random.default_rng(rng.randrange(2**32)).permutation(count)]
    for _ in range(rng.choice([0, 0, 1, 2])):
        odd = rng.choice(
            ["", " ", "-1", "1.0", "1_0", "0x1", "9" * 5000, "٣", "nan", "1 2", "\0", "é", "+3", str(2**63)]
        )
        lines.insert(rng.randrange(len(lines) + 1), odd)
    return (rng.choice(["\n", "\r\n", "\r"]).join(lines) + rng.choice(["", "\n", "\n\n\n"])).encode()


def manifest_valid(rng: random.Random) -> bytes:
    side = {"paths": ["x.npy"], "name": "x.npy", "rows": 300, "dim": 4, "dtype": "float32", "fingerprint": "xxh3:0"}
    entry: dict[str, Any] = {
        "tool_version": "0.1.0",
        "command": ["gcbs"],
        "created": "2024-01-01",
        "inputs": {"x": side, "y": side},
        "rows": 300,
        "batch_size": 8,
        "method": "rcm",
        "permutation_hash": "xxh3:0",
        "temperature": 0.05,
        "quantile": {"method": "sample", "requested": 0.9, "threshold": 0.5},
    }
    places = [entry, entry["inputs"], side, entry["quantile"]]
    for _ in range(rng.choice([0, 1, 2])):
        place = rng.choice(places)
        key = rng.choice(list(place))
        place[key] = rng.choice([None, *HUGE, "", "a" * 10_000, [], {}, True, 1e308, "\ud800", [[[[[]]]]]])
    whole = {
        "schema": "gcbs.manifest",
        "schema_version": rng.choice(["1.0", "1.9", "2.0", 1, None, "x"]),
        "entries": [entry],
    }
    if rng.random() < 0.3:
        whole["entries"] = rng.choice([[], None, [entry, entry], "no", [None]])
    return json.dumps(whole, allow_nan=True).encode("utf-8", "replace")


def report_json(rng: random.Random) -> bytes:
    """A gap report as `gcbs history` reads it, with a value changed here and there."""
    part = {"plan": 1.0, "random_mean": 2.0, "random_std": 0.1, "oracle": 0.1, "reduction": 0.5, "closed_share": 0.5}
    report: dict[str, Any] = {"n": 300, "dim": 4, "batch_size": 8, "temperature": 0.05, "loss_kind": "symmetric"}
    report |= {"loss": {"global": 3.0} | part, "gap": part | {"masked": part}}
    report[rng.choice(list(report))] = rng.choice([None, *HUGE, "", [], {}, 1e308, "x" * 5000])
    return json.dumps(rng.choice([report, {"results": [report]}, [report], report["gap"]])).encode()


def values_text(rng: random.Random) -> bytes:
    """Texts, ids or labels a line, as CSV or JSON lines."""
    rows = rng.choice([0, 1, 3, 20])
    odd = ["", "a", '"', "a,b", "\0", "é", "9" * 300, "{", "null", "[" * 1000, '{"id": 1}', "\x1c", "nan", "\u2028"]
    lines = [rng.choice([f"{i}", f'{{"id": {i}, "text": "t{i}"}}', f"{i},t", rng.choice(odd)]) for i in range(rows)]
    return ("\n".join([rng.choice(["id", "id,text", ""]), *lines])).encode("utf-8", "replace")


def nothing_in_particular(rng: random.Random) -> bytes:
    start = rng.choice([b"", b"\x93NUMPY", b"PAR1", b"ARROW1\0\0", b"PK\x03\x04", b"\x80\x04", b"{", b"\xef\xbb\xbf"])
    return start + rng.randbytes(rng.choice([0, 1, 7, 8, 9, 100, 5000]))


VALID: dict[str, list[Make]] = {
    "npy": [npy_valid, npy_other_types],
    "parquet": [parquet_valid, parquet_other_types],
    "arrow": [arrow_valid],
    "safetensors": [safetensors_valid],
    "permutation.npy": [permutation_npy],
    "permutation.parquet": [permutation_parquet],
    "permutation.txt": [permutation_text],
    "manifest": [manifest_valid],
    "report": [report_json],
    "values.npy": [permutation_npy, npy_other_types],
    "values.parquet": [parquet_other_types, permutation_parquet],
    "values.csv": [values_text],
    "values.jsonl": [values_text],
    "values.txt": [values_text],
    "config": [],
}
"""For each kind of file, what makes files that are whole."""

LYING: dict[str, list[Make]] = {
    "npy": [npy_lying_header],
    "safetensors": [safetensors_lying_header],
    "permutation.npy": [npy_lying_header, npy_other_types],
    "values.npy": [npy_lying_header],
}


def truncated(data: bytes, rng: random.Random) -> bytes:
    """Cut at any length: in the first bytes, in the header, in the data, before the last byte."""
    ends = [
        rng.randrange(len(data) + 1),
        rng.randrange(min(len(data), 16) + 1),
        max(0, len(data) - rng.choice([1, 2, 4, 8])),
    ]
    return data[: rng.choice(ends)]


def bits_flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
        if changed:
            changed[_place(changed, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def bytes_set(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 2, 4])):
        if changed:
            changed[_place(changed, rng)] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(changed)


def integers_set(data: bytes, rng: random.Random) -> bytes:
    """Four or eight bytes somewhere made a number that a length should not be."""
    value = rng.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1, rng.randrange(2**32)])
    number = struct.pack("<Q", value)[: rng.choice([4, 8])]
    start = _place(data, rng)
    return data[:start] + number + data[start + len(number) :]


def pieces_moved(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted((_place(data, rng), _place(data, rng)))
    return rng.choice([data[:a] + data[b:], data[:b] + data[a:], data[a:] + data[:a], data + data[a:b], data[b:]])


def _place(data: bytes | bytearray, rng: random.Random) -> int:
    """Anywhere, but every second time in the first or last 200 bytes, where the headers are."""
    if not data:
        return 0
    edge = min(len(data), 200)
    return rng.choice([rng.randrange(len(data)), rng.randrange(edge), len(data) - 1 - rng.randrange(edge)])


def checked_again(data: bytes, rng: random.Random) -> bytes:
    """Compressed, as a file that was saved with the wrong name would be."""
    return zlib.compress(data)


DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "truncated": truncated,
    "bits flipped": bits_flipped,
    "bytes set": bytes_set,
    "integers set": integers_set,
    "pieces moved": pieces_moved,
    "compressed": checked_again,
}
WAYS = ["whole", "lying", "random", "zip", *DAMAGE]
"""How a file comes about; the kinds by which tries are counted."""


CONFIG_KEYS = ["batch-size", "batch_size", "temperature", "quantile", "per-row", "output", "no-such-key", "plan"]
CONFIG_VALUES = [
    "64", "-1", "9" * 400, "0x40", "1e999", "nan", "-inf", "true", '"64"', '"\\u0000\\u001b[2J"', "[1, 2]", "{a = 1}",
    "1979-05-27T07:32:00Z", "[[[[]]]]", '"""\nlines\n"""',
]  # fmt: skip


def config_whole(rng: random.Random) -> bytes:
    """Settings in one of the places where they may stand, of right and wrong names and types."""
    lines = [f"{rng.choice(CONFIG_KEYS)} = {rng.choice(CONFIG_VALUES)}" for _ in range(rng.randrange(4))]
    table = rng.choice(["", "[tool.gcbs]", "[tool.gcbs.plan]", "[plan]", "[report]", "[tool]\ngcbs = 3", "[[plan]]"])
    return "\n".join([table, *lines, ""]).encode()


def config_lying(rng: random.Random) -> bytes:
    """Deep nesting, dotted keys without end, bytes that are no text."""
    many = rng.choice([10, 500, 20_000])
    return rng.choice(
        [
            b"batch-size = " + b"[" * many + b"]" * many,
            b"batch-size = " + b"{a = " * many + b"1" + b"}" * many,
            b".".join([b"a"] * many) + b" = 1",
            b"[" + b".".join([b"tool"] * many) + b"]",
            b"quantile = 0." + b"9" * many,
            b"\xff\xfe" + b"q = 1".replace(b"", b"\0"),
            b'"\x80" = 1',
        ]
    )


VALID["config"] = [config_whole]
LYING["config"] = [config_lying]


def make_input(kind: str, way: str, rng: random.Random) -> bytes:
    """A file of this kind, made in this way."""
    valid = VALID[kind] or [nothing_in_particular]
    if way == "random":
        return nothing_in_particular(rng)
    if way == "zip":
        return zip_bomb(rng)
    if way == "lying" and kind in LYING:
        return rng.choice(LYING[kind])(rng)
    data = rng.choice(valid)(rng)
    return DAMAGE[way](data, rng) if way in DAMAGE else data
