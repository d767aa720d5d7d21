"""The benchmark's data, runs and tables on small data; what they measure is not looked at."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")

import corpora
import encoders
import table
import trial
from corpora import CORPORA, Corpus, Pairs, check_hash, groups_of, hash_of
from records import gains, markdown, read_records, spread


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs of two linear maps of the same vector, with texts, as a corpus folder."""
    draws = np.random.default_rng(0)
    hidden = draws.normal(size=(700, 8))
    folder = tmp_path / "phrases"
    folder.mkdir()
    for name in "xy":
        np.save(folder / f"{name}.npy", hidden @ (np.eye(8) + 0.4 * draws.normal(size=(8, 8))))
    words = draws.integers(60, size=(700, 3))
    texts = [[" ".join(f"{side}{word}" for word in row) for row in words] for side in ("wort", "word")]
    pq.write_table(pa.table({"doc": texts[0], "code": texts[1]}), folder / "texts.parquet")
    np.save(folder / "groups.npy", groups_of(*texts))
    return tmp_path


def test_a_stopped_trial_goes_on_and_its_table_has_each_plan(data, capsys):
    out = data / "out.jsonl"
    asked = [str(data), "--out", str(out), "--corpora", "phrases", "--seeds", "1", "2", "--plans", "random", "rcm"]
    trial.main(asked)
    first = out.read_text()
    trial.main([*asked, "mined 1", trial.ALL_ROWS])
    assert out.read_text().startswith(first)
    records = read_records(out)
    assert [(run["plan"], run["seed"]) for run in records[:4]] == [("random", 1), ("rcm", 1), ("random", 2), ("rcm", 2)]
    assert len(records) == 8
    for run in records:
        assert len(run["validation"]) == 6
        assert run["validation"][run["epoch"]] == max(run["validation"])
        assert run["train_rows"] + run["candidates"] == 700
    capsys.readouterr()
    table.main(["--trials", str(out), "--encoders", str(data / "none.jsonl")])
    lines = capsys.readouterr().out.splitlines()
    shown = {line.split(" | ")[0].strip("| ") for line in lines}
    assert {"rcm", "mined 1", "random (its MRR)"} <= shown
    assert f"| {spread(gains(records, 'phrases', 'rcm'))} |" in "\n".join(lines)


def test_an_encoder_from_scratch_learns_to_translate(data, monkeypatch):
    monkeypatch.setitem(encoders.ENCODERS, "phrases", replace(encoders.ENCODERS["phrases"], queries=60))
    out = data / "encoders.jsonl"
    encoders.main(
        [str(data), "--out", str(out), "--corpora", "phrases", "--plans", "random", "mined 1", "--seeds", "1"]
    )
    for run in read_records(out):
        assert run["mrr"] > run["validation"][0] + 10
        assert run["train_rows"] == 580
    assert "not stated" in table.encoder_table(read_records(out), [])


def test_ranks_count_every_right_answer():
    x, y = np.eye(3, dtype=np.float32), np.array([[0.5, 0, 0], [0.9, 0.8, 0], [0, 0.9, 0.1]], np.float32)
    assert encoders.mean_reciprocal_rank(x, y, np.array([0, 1, 2])) == pytest.approx(100 * (1 / 2 + 1 / 2 + 1) / 3)
    assert encoders.mean_reciprocal_rank(x, y, np.array([0, 0, 2])) == pytest.approx(100 * (1 + 1 / 2 + 1) / 3)


def test_rows_that_share_a_text_are_one_group():
    found = groups_of(["a", "b", "a", "c"], ["p", "q", "r", "q"])
    assert found[0] == found[2] != found[1] == found[3]


def test_other_pairs_than_the_benchmarks_are_refused_or_told(monkeypatch, capsys):
    pairs = Pairs(["a"], ["b"], "source 1.2")
    known = Corpus(lambda _: pairs, CORPORA["words"].start, hash_of(pairs.x, pairs.y))
    monkeypatch.setitem(CORPORA, "words", known)
    assert check_hash("words", pairs) == known.sha256
    with pytest.raises(SystemExit, match=r"source 1\.2"):
        check_hash("words", Pairs(["a"], ["c"], "source 1.2"))
    monkeypatch.setitem(CORPORA, "words", Corpus(known.read, known.start, known.sha256, index=True))
    check_hash("words", Pairs(["a"], ["c"], "source 1.2"))
    assert "source 1.2" in capsys.readouterr().err


def test_phrases_have_three_words_a_side_and_no_marks(monkeypatch, tmp_path):
    file = tmp_path / "de-en"
    file.write_text(
        "# no pair :: at all here\n"
        "Aal {m} | der Aal [zool.] schwimmt :: eel | the eel <fish> swims\n"
        "zwei | nicht gleich viele :: one side only has one\n"
    )
    monkeypatch.setattr(corpora, "_unpack", lambda *_: file)
    pairs = corpora.read_phrases(tmp_path)
    assert (pairs.x, pairs.y) == (["der Aal schwimmt"], ["the eel swims"])


def test_a_table_has_one_line_a_row():
    assert markdown(["a", "b"], [["c", "1"]]) == "| a | b |\n| --- | ---: |\n| c | 1 |"
    assert spread([1.0, -3.0]) == "−1.00 ± 2.83"
