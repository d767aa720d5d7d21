"""Makes files that no reader should trust: valid ones, valid ones damaged, and ones that lie about themselves."""

import io
import json
import random
import struct
import zipfile
import zlib
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HUGE = [10**12, 10**18, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64, 10**30, -1, -2, -(2**63), 0, 1]
FLOATS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e-45, 1e-40, 3.4e38, 1e39, 1.7e308, 65504.0, 1.0, -1.0]
NO_MATRICES = [
    np.array([{"a": 1}, [2]], object),
    np.array([["a", "b"]]),
    np.zeros((3, 4), np.dtype([("x", "f4"), ("y", "f4")])),
    *(np.zeros((3, 4), kind) for kind in (np.int64, np.bool_, np.complex64, "M8[s]", np.longdouble, "V2")),
    *(np.zeros(shape, np.float32) for shape in ((3,), (), (2, 3, 4), (1,) * 32)),
]
"""Objects (pickles), strings, records, integers, dates, complex numbers, other numbers of dimensions."""
DTYPES = ["<f4", "<f8", "|O", "<f2", "|V2", "<f16", ">f4", "<i8", "|S0", "<U9999999999", "f4,f4", "", "x"]
NO_HEADERS = [
    "{'descr': '<f4', 'fortran_order': False}",
    "{'descr': '<f4', 'fortran_order': 2, 'shape': (3, 4)}",
    *(
        f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}"
        for shape in ("__import__('os').getcwd()", "(1e3, 4)", "(3L, 4L)", "(True, 4)", f"({'(' * 5000})")
    ),
    *(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'9' * digits}, 4)}}" for digits in (100, 4000, 9000)),
    "[" * 200,
    "\x00" * 100,
]
ODD_ROWS = [
    *([{"a": 1.0}, {"a": 2.0}], [[[1.0, 2.0]], [[3.0]]], [[1, 2], [3, 4]], [["a"], ["b"]], [[True], [False]]),
    *([1.0, 2.0], [None, None], [[None], [None]], [b"12345678", b"12345678"]),
]
FLOAT_ROWS = [[None, None], [[1.0, None], [2.0, 3.0]], [[1.0, 2.0], [2.0]], [[], []]]
NO_VECTORS = [
    *map(pa.array, ODD_ROWS),
    *(pa.array(rows, pa.list_(pa.float32())) for rows in FLOAT_ROWS),
    pa.array([[("a", 1.0)], []], pa.map_(pa.string(), pa.float32())),
    pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2)),
    pa.array([[1.0], [2.0]], pa.large_list(pa.float32())),
    pa.array(["a", "a"]).dictionary_encode(),
    pa.array([[1.0, 2.0], [1.0, 3.0]]).take(pa.array([0, 1, 0])).slice(1, 2),
]
"""Nested lists, structs, maps, nulls, dictionaries, ragged lists, slices."""
TENSORS = [
    *({"dtype": "F32", "shape": shape, "data_offsets": [0, 24]} for shape in ([2, 3], "no", [2.0, 3], [True, 3])),
    *({"dtype": dtype, "shape": [2, 3], "data_offsets": [0, 24]} for dtype in ("F8_E4M3", "", "x" * 999, 3, None)),
    *({"dtype": "F32", "shape": [2, 3], "data_offsets": at} for at in ([0], [24, 0], [12, 36], [0, 10**12])),
    *({}, [], None, 7),
]
ODD_VALUES = ["", "a", '"', "a,b", "\0", "é", "9" * 300, "{", "null", "[" * 1000, '{"id": 1}', "\x1c", "nan", "\u2028"]
STARTS = [b"", b"\x93NUMPY", b"PAR1", b"ARROW1\0\0", b"PK\x03\x04", b"\x80\x04", b"{", b"\xef\xbb\xbf"]
CONFIG_KEYS = ["batch-size", "batch_size", "temperature", "quantile", "per-row", "output", "no-such-key", "plan"]
CONFIG_VALUES = [
    "64", "-1", "9" * 400, "0x40", "1e999", "nan", "-inf", "true", '"64"', '"\\u0000\\u001b[2J"', "[1, 2]", "{a = 1}",
    "1979-05-27T07:32:00Z", "[[[[]]]]", '"""\nlines\n"""',
]  # fmt: skip
CONFIG_TABLES = ["", "[tool.gcbs]", "[tool.gcbs.plan]", "[plan]", "[report]", "[tool]\ngcbs = 3", "[[plan]]"]


def _matrix(rng, kinds):
    """A small matrix of some float type, now and then with values at the edge of what floats hold."""
    rows, dim = rng.choice([0, 1, 2, 3, 9, 40]), rng.choice([0, 1, 2, 5, 16])
    values = np.random.default_rng(rng.randrange(2**32)).normal(size=(rows, dim))
    for _ in range(rng.choice([0, 0, 1, 3])):
        if values.size:
            values[rng.randrange(rows), rng.randrange(dim)] = rng.choice(FLOATS)
    if rng.random() < 0.1 and rows:
        values[rng.randrange(rows)] = rng.choice(FLOATS)
    with np.errstate(over="ignore"):
        return values.astype(rng.choice(kinds))


def _permutation(rng):
    return np.random.default_rng(rng.randrange(2**32)).permutation(rng.choice([0, 1, 2, 20, 300]))


def _npy(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version, allow_pickle=True)
    return file.getvalue()


def npy_valid(rng):
    array = _matrix(rng, ["<f2", "<f4", "<f8", ">f2", ">f4", ">f8"])
    return _npy(np.asfortranarray(array) if rng.random() < 0.2 else array, rng.choice([(1, 0), (2, 0), None]))


def npy_other_types(rng):
    return _npy(rng.choice(NO_MATRICES))


def npy_lying_header(rng):
    """Shapes of 10¹² rows, negative and huge sizes, expressions where a tuple should be, deep nesting."""
    shape = tuple(rng.choice([*HUGE, 3, 4]) for _ in range(rng.choice([0, 1, 2, 2, 2, 3, 40])))
    lying = repr({"descr": rng.choice(DTYPES), "fortran_order": rng.random() < 0.3, "shape": shape})
    text = rng.choice([lying, rng.choice(NO_HEADERS)]).encode("latin1") + b"\n"
    version = rng.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x09"])
    length = struct.pack("<I", rng.choice([len(text), len(text), len(text), 0, 1, 65535, 2**31, 2**32 - 1]))
    length = length[:2] if version == b"\x01\x00" else length
    return b"\x93NUMPY" + version + length + text + rng.randbytes(rng.choice([0, 16, 48, 1000]))


def zip_bomb(rng):
    """An .npz in the clothes of another file, with a member that grows a thousandfold."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(rng.choice(["x.npy", "arr_0.npy"]), b"\x93NUMPY" + b"\0" * rng.choice([10, 1 << 20]))
    return file.getvalue()


def _parquet(table, rng):
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


def _lists(rng):
    values = _matrix(rng, ["f2", "f4", "f8"])
    rows, dim = values.shape
    flat = pa.array(values.reshape(-1), pa.from_numpy_dtype(values.dtype))
    if rng.random() < 0.4 and dim:
        return pa.FixedSizeListArray.from_arrays(flat, dim)
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * dim), flat)


def parquet_valid(rng):
    x, y = _lists(rng), _lists(rng)
    return _parquet(pa.table({"x": x, "y": y if len(x) == len(y) and rng.random() < 0.3 else x}), rng)


def parquet_other_types(rng):
    names = rng.sample(["x", "y", "embedding", "a\nb", "", "x"], k=rng.choice([1, 2, 3]))
    table = pa.Table.from_arrays([rng.choice(NO_VECTORS) for _ in names], names=names)
    return _parquet(table.slice(0, 0) if rng.random() < 0.1 else table, rng)


def safetensors_valid(rng):
    from safetensors.numpy import save

    x = np.ascontiguousarray(_matrix(rng, ["<f2", "<f4", "<f8"]))
    return save({"x": x, "y": x, "rest": np.zeros(3, np.int32)})


def safetensors_lying_header(rng):
    """Offsets that overlap, leave the file or run backwards; shapes of 10¹² rows; headers of any length and depth."""
    begin, stop = (rng.choice([0, 0, 12, 24, *HUGE]) for _ in range(2))
    shape = [rng.choice([2, 3, 4, *HUGE]) for _ in range(rng.choice([0, 1, 2, 2, 3]))]
    lying = {"dtype": rng.choice(["F32", "F16", "BF16", "F64", "I8"]), "shape": shape, "data_offsets": [begin, stop]}
    names = rng.sample(["x", "y", "__metadata__", "z", "a\nb"], k=rng.choice([1, 2, 3]))
    header = {name: rng.choice([lying, rng.choice(TENSORS)]) for name in names}
    others = [[header], "[" * 100_000, "{}", "", '{"x":', '{"x": NaN}', "\xff"]
    chosen = rng.choice([header, rng.choice(others)])
    data = chosen.encode("latin1") if isinstance(chosen, str) else json.dumps(chosen).encode()
    length = rng.choice([len(data), len(data), len(data), 0, 1, 2**31, 2**63, 2**64 - 1])
    return struct.pack("<Q", length) + data + rng.randbytes(rng.choice([0, 24, 96]))


def permutation_npy(rng):
    kind = rng.choice(["<i8", ">i8", "<i4", "<u8", "<u2", "<f8", "|b1", "<i8", "<i8"])
    return _npy(_permutation(rng).astype(kind).reshape(rng.choice([(-1,), (-1, 1)])))


def permutation_parquet(rng):
    index = _permutation(rng)
    columns = [
        *(pa.array(index.astype(kind)) for kind in (np.int64, np.uint64, np.float64)),
        pa.array([None, *index[1:].tolist()][: len(index)], pa.int64()),
        pa.nulls(len(index)),
        pa.array([[int(i)] for i in index], pa.list_(pa.int64())),
        pa.array([str(i) for i in index], pa.string()).dictionary_encode(),
    ]
    names = rng.choice([["index"], ["index", "batch"], ["other"], ["index", "index"]])
    return _parquet(pa.Table.from_arrays([rng.choice(columns)] * len(names), names=names), rng)


def manifest_valid(rng):
    side = {"paths": ["x.npy"], "name": "x.npy", "rows": 300, "dim": 4, "dtype": "float32", "fingerprint": "xxh3:0"}
    manifest = {"schema": "gcbs.manifest", "schema_version": rng.choice(["1.0", "1.9", "2.0", 1, None, "x"])}
    manifest |= {"tool_version": "0.1.0", "command": ["gcbs"], "created": "2024-01-01", "rows": 300}
    manifest |= {"inputs": {"x": side, "y": side}, "batch_size": 8, "method": "rcm", "permutation_hash": "xxh3:0"}
    manifest |= {"temperature": 0.05, "quantile": {"method": "sample", "requested": 0.9, "threshold": 0.5}}
    places = [manifest, manifest["inputs"], side, manifest["quantile"]]
    for _ in range(rng.choice([0, 1, 2])):
        place = rng.choice(places)
        place[rng.choice(list(place))] = rng.choice([None, *HUGE, "", "a" * 10_000, [], {}, True, 1e308, "\ud800"])
    whole = rng.choice([manifest, manifest, manifest, manifest, [], None, [manifest], "no"])
    return json.dumps(whole, allow_nan=True).encode("utf-8", "replace")


def report_json(rng):
    """A gap report as `gcbs history` reads it, with a value changed here and there."""
    part = {"plan": 1.0, "random_mean": 2.0, "random_std": 0.1, "oracle": 0.1, "reduction": 0.5, "closed_share": 0.5}
    report = {"n": 300, "dim": 4, "batch_size": 8, "temperature": 0.05, "loss_kind": "symmetric"}
    report |= {"loss": {"global": 3.0} | part, "gap": part | {"masked": part}}
    report[rng.choice(list(report))] = rng.choice([None, *HUGE, "", [], {}, 1e308, "x" * 5000])
    return json.dumps(rng.choice([report, {"results": [report]}, [report], report["gap"]])).encode()


def values_text(rng):
    """Texts, ids or labels a line, as CSV or JSON lines."""
    kinds = ["{0}", '{{"id": {0}, "text": "t{0}"}}', "{0},t"]
    lines = [rng.choice(kinds).format(i) for i in range(rng.choice([0, 1, 3, 20]))]
    lines = [rng.choice(ODD_VALUES) if rng.random() < 0.25 else line for line in lines]
    return "\n".join([rng.choice(["id", "id,text", ""]), *lines]).encode("utf-8", "replace")


def config_whole(rng):
    """Settings in one of the places where they may stand, of right and wrong names and types."""
    lines = [f"{rng.choice(CONFIG_KEYS)} = {rng.choice(CONFIG_VALUES)}" for _ in range(rng.randrange(4))]
    return "\n".join([rng.choice(CONFIG_TABLES), *lines, ""]).encode()


def config_lying(rng):
    """Deep nesting, long dotted keys, bytes that are no text."""
    many = rng.choice([10, 500, 20_000])
    texts = ["batch-size = " + "[" * many + "]" * many, "batch-size = " + "{a = " * many + "1" + "}" * many]
    dotted = ".".join(["tool"] * min(many, 500))
    texts += [f"{dotted} = 1", f"[{dotted}]", "quantile = 0." + "9" * many]
    return rng.choice([*(text.encode() for text in texts), b"\xff\xfeq\0 \0=\0 \x001\0", b'"\x80" = 1'])


def nothing_in_particular(rng):
    return rng.choice(STARTS) + rng.randbytes(rng.choice([0, 1, 7, 8, 9, 100, 5000]))


VALID = {
    "npy": [npy_valid, npy_other_types],
    "parquet": [parquet_valid, parquet_other_types],
    "safetensors": [safetensors_valid],
    "permutation.npy": [permutation_npy],
    "permutation.parquet": [permutation_parquet],
    "manifest": [manifest_valid],
    "report": [report_json],
    "values.npy": [permutation_npy, npy_other_types],
    "values.parquet": [parquet_other_types, permutation_parquet],
    "config": [config_whole],
    **{kind: [values_text] for kind in ("csv", "tsv", "jsonl", "ndjson", "txt")},
}
"""For each kind of file, or for each suffix whoever reads it, what makes files that are whole."""
LYING = {
    "npy": [npy_lying_header],
    "safetensors": [safetensors_lying_header],
    "permutation.npy": [npy_lying_header, npy_other_types],
    "values.npy": [npy_lying_header],
    "config": [config_lying],
}


def _place(data, rng):
    """Anywhere, but every second time in the first or last 200 bytes, where the headers are."""
    edge = min(len(data), 200)
    return rng.choice([rng.randrange(len(data)), rng.randrange(edge), len(data) - 1 - rng.randrange(edge)])


def truncated(data, rng):
    """Cut at any length: in the first bytes, in the header, in the data, before the last byte."""
    return data[: _place(data, rng)]


def overwritten(data, rng):
    """Bits flipped, or one, four or eight bytes made a number that a length should not be."""
    for _ in range(rng.choice([1, 1, 1, 2, 5, 20])):
        at = _place(data, rng)
        number = rng.choice([0, 1, 0x7F, 0x80, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1, rng.randrange(2**64)])
        flipped = bytes([data[at] ^ 1 << rng.randrange(8)])
        piece = rng.choice([flipped, struct.pack("<Q", number)[: rng.choice([1, 4, 8])]])
        data = data[:at] + piece + data[at + len(piece) :]
    return data


def moved(data, rng):
    a, b = sorted((_place(data, rng), _place(data, rng)))
    return rng.choice([data[:a] + data[b:], data[:b] + data[a:], data[a:] + data[:a], data + data[a:b], data[b:]])


def compressed(data, rng):
    return zlib.compress(data)


DAMAGE = {damage.__name__: damage for damage in (truncated, overwritten, moved, compressed)}
WAYS = ["whole", "lying", "random", "zip", *DAMAGE]
"""How a file comes about; the kinds by which tries are counted."""


def make_input(kind, way, rng):
    """A file of this kind, made in this way."""
    if way in ("random", "zip"):
        return nothing_in_particular(rng) if way == "random" else zip_bomb(rng)
    known = VALID | LYING if way == "lying" else VALID
    every = list(chain.from_iterable(VALID.values()))  # for a suffix that nobody has made files of yet
    data = rng.choice(known.get(kind) or known.get(kind.rpartition(".")[2]) or every)(rng)
    return DAMAGE[way](data, rng) if way in DAMAGE and data else data


def input_of(target, way, seed):
    """The file of one try; the same for the same seed."""
    kind = target.removeprefix("shards of ").removesuffix(" as bfloat16")
    return make_input(kind, way, random.Random(f"{target} {way} {seed}"))
