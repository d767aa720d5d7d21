"""Texts, ids and labels beside the embeddings: the same values from every format."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gcbs_cli.data.row_values import READERS, WITH_COLUMNS, ids_of, labels_of, read_row_values, texts_of
from gcbs_cli.system.errors import BadInput

WRITERS = {
    ".npy": lambda path, rows: np.save(path, [row["id"] for row in rows]),
    ".parquet": lambda path, rows: pq.write_table(pa.Table.from_pylist(rows), path),
    ".jsonl": lambda path, rows: path.write_text("\n\n".join(map(json.dumps, rows))),
    ".csv": lambda path, rows: path.write_text("\n".join(map(",".join, [rows[0], *(row.values() for row in rows)]))),
    ".txt": lambda path, rows: path.write_text("".join(f"{row['id']}\n" for row in rows)),
}


@pytest.mark.parametrize("suffix", READERS)
def test_values_of_every_format_by_column_or_as_the_only_one(tmp_path, suffix):
    path, values = tmp_path / f"ids{suffix}", ["b", "a", "b"]
    WRITERS[suffix](path, [{"id": value} for value in values])
    assert read_row_values(str(path), "--groups", rows=3) == values
    wrong = {4: "3 rows, the embeddings 4", "id": "no columns, expected no --groups-column"}
    if suffix in WITH_COLUMNS:
        WRITERS[suffix](path, [{"other": "z", "id": value} for value in values])
        assert read_row_values(str(path), "--groups", "id") == values
        found = "found the columns other, id; expected "
        wrong = {None: f"{found}one column, or its name", "ida": f"{found}the column ida; did you mean id"}
    for asked, says in wrong.items():
        with pytest.raises(BadInput, match=f"--groups .*{suffix}: .*{says}"):
            read_row_values(str(path), "--groups", *((None, asked) if asked == 4 else (asked,)))


def test_what_values_stand_for(tmp_path):
    (tmp_path / "plain.jsonl").write_text('"b"\nnull\n7\n')
    values = read_row_values(str(tmp_path / "plain.jsonl"), "--text")
    assert texts_of(values) == ["b", "", "7"]
    assert ids_of([*values, "b", "7"]).tolist() == [0, 1, 2, 0, 2]
    assert labels_of([" Yes", "0", 1, False, "-1"], "--labels").tolist() == [1, 0, 1, 0, 0]
    assert labels_of(["0.3", -2], "--labels", graded=True).tolist() == [0.3, -2]
    for graded, expected in ((False, "1 or 0; for grades give --label-threshold"), (True, "a number")):
        with pytest.raises(BadInput, match=f"--labels l.txt: row 1 is maybe, expected {expected}"):
            labels_of(["1", "Maybe"], "--labels l.txt", graded=graded)
