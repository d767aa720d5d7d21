"""Hugging Face datasets and webdataset: readers from front to back get the planned batches."""

import json

import pytest
from launching import applied
from toy_pairs import BATCH, planned_batches


def test_datasets_streaming_of_applied_data(tmp_path, plan_path, perm):
    datasets = pytest.importorskip("datasets")
    path = str(applied(tmp_path, plan_path))
    stream = datasets.load_dataset("json", data_files=path, split="train", streaming=True)
    assert [batch["row"] for batch in stream.iter(BATCH)] == planned_batches(perm)


@pytest.mark.slow
def test_webdataset_of_applied_data(tmp_path, plan_path, perm, launch):
    """A shard holds whole batches, so that each batch is a planned one, whichever worker or rank reads the shard."""
    pytest.importorskip("webdataset")
    folder = launch("web.py", applied(tmp_path, plan_path))
    found, planned = json.loads((folder / "batches.json").read_text()), planned_batches(perm)
    assert found["alone"] == planned
    assert found["workers"][:4] == [planned[number] for number in (0, 2, 1, 3)]  # the workers' batches in turn
    assert sorted(found["workers"]) == sorted(planned)
    assert found["ranks"] == [[planned[number] for number in numbers] for numbers in ([0, 1, 4, 5, 8], [2, 3, 6, 7])]
