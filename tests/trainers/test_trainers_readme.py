"""The README's lines for each framework, as they stand, train on whole planned batches."""

import re
from pathlib import Path

import numpy as np
import pytest
from launching import save
from toy_pairs import check_epoch, load_records

README = Path(__file__).parents[2] / "README.md"
ROWS, BATCH, EPOCHS = 200, 64, 3
NEEDS = {
    "sentence-transformers": ["sentence_transformers", "accelerate", "datasets"],
    "transformers Trainer": ["transformers", "accelerate"],
    "Lightning": ["lightning"],
    "PyTorch": ["torch"],
    "Accelerate": ["accelerate"],
}


def blocks():
    """The code of each framework by its bold heading."""
    pages = ((README, "Trainers"), (README.parent / "docs" / "trainers.md", "Examples"))
    sections = (page.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0] for page, title in pages)
    return dict(re.findall(r"(?s)\*\*([\w -]+)\*\*[^\n]*\n\n```python\n(.*?)```", "".join(sections)))


@pytest.mark.slow
@pytest.mark.parametrize("framework", NEEDS)
def test_the_readmes_lines_train_on_the_plan(framework, tmp_path, launch):
    for module in NEEDS[framework]:
        pytest.importorskip(module)
    folder = tmp_path / "out"
    folder.mkdir()
    perm = np.random.default_rng(3).permutation(ROWS)
    save(folder / "perm.npy", perm, batch_size=BATCH)
    (folder / "block.py").write_text(blocks()[framework])
    launch("readme.py", framework)
    (record,) = load_records(folder, "rows", 1)
    seen = [rows for rows, _ in record["all"]]
    each = -(-ROWS // BATCH)
    assert len(seen) == EPOCHS * each
    epochs = [seen[epoch * each : (epoch + 1) * each] for epoch in range(EPOCHS)]
    for batches in epochs:
        order = perm if framework == "Accelerate" else np.concatenate(sorted(batches, key=len, reverse=True))
        check_epoch(batches, order, set(), BATCH)
    assert sorted(map(sorted, epochs[0])) != sorted(map(sorted, epochs[1])) or framework == "Accelerate"
    assert epochs[0] != epochs[1]  # another order of the batches
