"""mosaicml-streaming: MDS written from data in plan order, read in one process and under torchrun with two and four.

Its pins exclude the other frameworks' versions, so that these tests run where it was installed by itself.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from launching import applied, torchrun
from toy_pairs import BATCH, ROWS, load_records, planned_batches

from gcbs_cli.trainers import interleave_batches

pytestmark = pytest.mark.skipif(find_spec("streaming") is None, reason="not installed: streaming")


@pytest.fixture
def read(tmp_path, plan_path, perm, launch):
    """What each rank reads, `gcbs apply`'s output written as MDS: the batches of an epoch by name."""

    def run(ranks):
        np.save(tmp_path / "dealt.npy", interleave_batches(perm, BATCH, ranks))
        lines = [applied(tmp_path, plan) for plan in (plan_path, tmp_path / "dealt.npy")]
        folder = launch(
            Path(__file__).with_name("streamed.py"), *lines, launcher=torchrun(ranks) if ranks > 1 else None
        )
        records = load_records(folder, "streamed", ranks)
        return [{name: [rows for rows, _ in steps] for name, steps in record.items()} for record in records]

    return run


def test_one_process_reads_the_planned_batches(read, perm):
    (record,) = read(1)
    assert len(record) == 8  # workers or not, fetched far ahead or not, two epochs
    assert all(batches == planned_batches(perm) for batches in record.values())


@pytest.mark.parametrize("ranks", [2, 4])
def test_several_ranks(ranks, read, perm):
    records = read(ranks)
    full = ROWS // BATCH
    for name in records[0]:
        steps = list(zip(*(record[name] for record in records), strict=True))
        if name.startswith("gather"):
            seen = [sorted(row for part in step for row in part) for step in steps]
            assert seen[:full] == [sorted(batch) for batch in planned_batches(perm)[:full]]
            # the short batch is filled up to a multiple of the ranks with rows of its end
            assert set(seen[full]) == set(planned_batches(perm)[full])
            assert len(seen[full]) == ROWS % BATCH + (-ROWS % ranks)
        else:
            seen = [batch for step in steps for batch in step]
            assert seen == planned_batches(perm)[: full // ranks * ranks]
