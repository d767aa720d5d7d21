"""Time gcbs beside other ways to find hard negatives, in turn on the same data, in one run.

Needs the `test` extra, faiss-cpu, sentence-transformers and datasets; what is not installed is left out and said.
Usage: ``python benchmarks/compare_tools.py codedoc --rounds 3`` (a folder with x.npy and y.npy, as
``benchmarks/make_codedoc.py`` makes)
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
from measuring import (
    bare_product,
    follow_thread_limit,
    machine,
    markdown_table,
    median_ratio,
    read_data,
    run_in_turn,
)

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.settings.plan import PlanSettings

QUANTILE = 0.999
CHUNK_ROWS = 1024
NEIGHBOURS = 16
BARE = "bare float32 product"
PLAN = "gcbs plan, after imports and reading"
WHOLE = "gcbs plan, whole process"
FAISS = f"faiss IndexFlatIP, k={NEIGHBOURS}, one direction"
FAISS_WHOLE = "the same, whole process"
PAPER = "GCBS's pseudo-code in chunks (torch, scipy)"
MINED = "sentence-transformers mine_hard_negatives, one negative"

_FAISS_PROCESS = """
import sys, numpy, faiss
x, y = (numpy.ascontiguousarray(numpy.load(path), numpy.float32) for path in sys.argv[1:3])
faiss.normalize_L2(x)
faiss.normalize_L2(y)
index = faiss.IndexFlatIP(y.shape[1])
index.add(y)
index.search(x, int(sys.argv[3]))
"""


def paper_pseudo_code(pair: PairedRows) -> np.ndarray:
    """GCBS, appendix: chunks of rows; the quantile of each, their median; what lies above to a sparse matrix; RCM."""
    import torch
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    x, y = torch.from_numpy(pair.x), torch.from_numpy(pair.y)
    chunks = range(0, pair.rows, CHUNK_ROWS)
    # torch.quantile takes at most 16 million numbers, so a chunk's is taken of every few of its entries.
    every = -(-CHUNK_ROWS * pair.rows // (1 << 24))
    quantiles = [torch.quantile((x[s : s + CHUNK_ROWS] @ y.T).reshape(-1)[::every], QUANTILE) for s in chunks]
    threshold = torch.stack(quantiles).median()
    rows, cols = [], []
    for start in chunks:
        found = torch.nonzero(x[start : start + CHUNK_ROWS] @ y.T > threshold)
        rows.append(found[:, 0].numpy() + start)
        cols.append(found[:, 1].numpy())
    ends = np.concatenate(rows), np.concatenate(cols)
    directed = csr_matrix((np.ones(len(ends[0]), np.float32), ends), shape=(pair.rows, pair.rows))
    return reverse_cuthill_mckee((directed + directed.T).tocsr(), symmetric_mode=True)


def faiss_search(pair: PairedRows) -> Callable[[], object] | None:
    """Flat search of every row of x among y."""
    try:
        import faiss
    except ImportError:
        return None

    def search() -> None:
        index = faiss.IndexFlatIP(pair.dim)
        index.add(pair.y)
        index.search(pair.x, NEIGHBOURS)

    return search


def mined_negatives(pair: PairedRows) -> Callable[[], object] | None:
    """mine_hard_negatives with a model that looks the embeddings up: only the mining is timed, not an encoder."""
    try:
        import torch
        from datasets import Dataset
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.util import mine_hard_negatives
    except ImportError:
        return None

    class LookUp(SentenceTransformer):
        """Texts are a side's letter and a row."""

        def __init__(self) -> None:
            super().__init__(modules=[torch.nn.Identity()], device="cpu")

        def encode(self, sentences: list[str], **settings: object) -> np.ndarray:  # type: ignore[override]
            numbers = np.array([int(text[1:]) for text in sentences])
            return (pair.x if sentences[0][0] == "x" else pair.y)[numbers]

        encode_query = encode_document = encode  # type: ignore[assignment]

    data = Dataset.from_dict({side: [f"{side}{row}" for row in range(pair.rows)] for side in "xy"})
    model = LookUp()
    return lambda: mine_hard_negatives(data, model, num_negatives=1, verbose=False)


def works_on(folder: Path, scratch: Path) -> dict[str, Callable[[], object]]:
    """Everything that can be timed here."""
    pair = read_data(folder)
    paths = [str(folder / "x.npy"), str(folder / "y.npy")]
    settings = PlanSettings(quantile=QUANTILE, device="cpu")
    whole = [sys.executable, "-m", "gcbs_cli", "plan", *paths, "-o", str(scratch / "perm.npy"), "-q", "--force"]
    found: dict[str, Callable[[], object] | None] = {
        BARE: bare_product(pair),
        PLAN: lambda: make_plan(pair, settings),
        FAISS: faiss_search(pair),
        WHOLE: lambda: subprocess.run([*whole, "--quantile", str(QUANTILE)], check=True),
        FAISS_WHOLE: lambda: subprocess.run(
            [sys.executable, "-c", _FAISS_PROCESS, *paths, str(NEIGHBOURS)], check=True
        ),
        PAPER: lambda: paper_pseudo_code(pair),
        MINED: mined_negatives(pair),
    }
    if found[FAISS] is None:
        del found[FAISS_WHOLE]
    for name in [name for name, work in found.items() if work is None]:
        print(f"left out, not installed: {name}", file=sys.stderr)
        del found[name]
    return {name: work for name, work in found.items() if work is not None}


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder with x.npy and y.npy")
    parser.add_argument("--rounds", type=int, default=3, help="times that all are run in turn (default %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="only the lines that hold one of these words")
    options = parser.parse_args(arguments)
    follow_thread_limit()
    with tempfile.TemporaryDirectory() as scratch:
        works = works_on(options.data, Path(scratch))
        if options.only:
            works = {name: work for name, work in works.items() if name == BARE or any(w in name for w in options.only)}
        if PLAN in works:
            works[PLAN]()  # imports and compilation, once for each machine
        seconds = run_in_turn(works, options.rounds)
    print(f"{machine()}; median of {options.rounds} rounds\n")
    lines = [
        [
            name,
            f"{median(times):.2f}",
            f"{min(times):.2f}–{max(times):.2f}",
            f"{median_ratio(times, seconds[BARE]):.2f}",
        ]
        for name, times in seconds.items()
    ]
    print(markdown_table(["", "seconds", "least–most", "bare products"], lines))


if __name__ == "__main__":
    main()
