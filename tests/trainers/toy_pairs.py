"""What the tests of trainers and their worker processes share: pairs, a model, losses, and records of what was trained.

The model begins as the identity, so that its first embeddings are the features and every figure has a reference.
"""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

# Here, before a process group exists: the module's default arguments keep the group of the moment of import, whose
# threads then outlive destroy_process_group and may abort the process at exit (Python < 3.14).
from torch.distributed.nn.functional import all_gather
from torch.utils.data import Dataset

from gcbs_cli.system.errors import BadInput

ROWS, DIM, BATCH = 71, 8, 8  # 8 full batches and one of 7
TEMPERATURE = 0.1
FIGURES = {"L_train", "L_train_random", "suspects", "suspects_random", "L_global", "gap", "interval", "reduction"}
FIGURES |= {
    "learnable",
    "learnable_random",
    "epoch",
    "step",
    "k",
    "rows",
    "rows_embedded",
    "embed_seconds",
    "plan_seconds",
}


def make_sides(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((6, DIM))
    x = centres[rng.integers(0, 6, rows)] + 0.5 * rng.standard_normal((rows, DIM))
    y = x + 0.5 * rng.standard_normal((rows, DIM))
    x, y = x / np.linalg.norm(x, axis=1, keepdims=True), y / np.linalg.norm(y, axis=1, keepdims=True)
    return x.astype(np.float32), y.astype(np.float32)


class Pairs(Dataset[dict[str, Any]]):
    def __init__(self, rows=ROWS):
        self.x, self.y = make_sides(rows)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return {"x": self.x[row], "y": self.y[row], "row": row}


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(DIM, DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        with torch.no_grad():
            self.left.weight.copy_(torch.eye(DIM))
            self.right.weight.copy_(torch.eye(DIM))

    def forward(self, x, y):
        return nn.functional.normalize(self.left(x), dim=-1), nn.functional.normalize(self.right(y), dim=-1)

    @torch.no_grad()
    def embed(self, rows=slice(None)):
        """Both sides of some of the pairs by the model of this moment."""
        return self(*(torch.from_numpy(side[rows]) for side in make_sides()))


def contrast(x, y, gather=False):
    """Symmetric InfoNCE, written without gcbs; `gather`: of all ranks' rows, with gradients for this rank's part."""
    if gather:
        x, y = (torch.cat(list(all_gather(part.contiguous()))) for part in (x, y))
    logits = x @ y.T / TEMPERATURE
    target = torch.arange(len(x))
    return (nn.functional.cross_entropy(logits, target) + nn.functional.cross_entropy(logits.T, target)) / 2


def must_refuse(said, act, *words, **named):
    with pytest.raises(BadInput, match=said):
        act(*words, **named)


def begin():
    """One thread, and no warning but that of a loss which is not the planned one, which ends the worker."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    warnings.filterwarnings("error", message="step .*the trainer's loss")


def leave():
    """End the process group's threads before the process ends; one that frees a tensor at exit aborts it."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class Record:
    """What a rank saw: for each step the rows of its batch and its loss; saved as JSON."""

    def __init__(self):
        self.steps = {}

    def add(self, epoch, rows, loss):
        self.steps.setdefault(str(epoch), []).append([[int(row) for row in rows], float(loss)])

    def save(self, folder, name, rank):
        (Path(folder) / f"{name}.{rank}.json").write_text(json.dumps(self.steps))

    def note_plan(self, perm, history):
        """The plan of the last epoch; checks what was logged of all."""
        assert all({figure.split("/")[-1] for figure in figures} == FIGURES for figures in history)
        self.steps["plans"] = [[perm.tolist(), 0.0]]


def load_records(folder, name, ranks):
    return [json.loads((folder / f"{name}.{rank}.json").read_text()) for rank in range(ranks)]


def losses_seen(steps, *, gather):
    """The rows of each loss, step by step, from the steps of each rank."""
    assert len({len(of_rank) for of_rank in steps}) == 1, "ranks differ in steps"
    seen = []
    for step in zip(*steps, strict=True):
        if gather:
            seen.append([row for rows, _ in step for row in rows])
        else:
            seen += [rows for rows, _ in step]
    return seen


def planned_batches(perm, size=BATCH):
    return [perm[start : start + size].tolist() for start in range(0, len(perm), size)]


def check_epoch(seen, perm, left_out, size=BATCH):
    """Every loss saw one whole planned batch, in its order, and each row came once but for the documented tail."""
    planned = {tuple(batch) for batch in planned_batches(perm, size)}
    for batch in seen:
        if len(batch) == size:
            assert tuple(batch) in planned
        else:  # the short last batch, perhaps cut to a multiple of the ranks
            assert perm[len(perm) - len(perm) % size :].tolist()[: len(batch)] == batch
    rows = [row for batch in seen for row in batch]
    assert len(rows) == len(set(rows))
    assert set(perm.tolist()) - set(rows) == left_out


def pattern_beside(plan):
    """The name pattern of the plans, one an epoch, that lie beside this one."""
    return str(Path(plan).parent / "perm-{epoch}.npy")


def check_plan_of_each_epoch(records, plans):
    """Each epoch trained on whole batches of its own plan."""
    for epoch, plan in enumerate(plans):
        seen = losses_seen([record[str(epoch)] for record in records], gather=False)
        trained = {row for batch in seen for row in batch}
        assert len(trained) > len(plan) // 2
        check_epoch(seen, plan, set(plan.tolist()) - trained)


def check_replanned(records, *, gather=False):
    """Planned in process at the start of each epoch: all ranks train on the same plan, the second epoch on the last."""
    plans = [record["plans"][0][0] for record in records]
    assert all(plan == plans[0] for plan in plans)
    planned = {tuple(batch) for batch in planned_batches(np.array(plans[0]))}
    seen = [losses_seen([record[epoch] for record in records], gather=gather) for epoch in "01"]
    assert all(tuple(rows) in planned for rows in seen[1] if len(rows) == BATCH)
    assert not all(tuple(rows) in planned for rows in seen[0])
    for epoch in seen:
        rows = [row for batch in epoch for row in batch]
        assert len(rows) == len(set(rows)) > ROWS // 2


def check_resumed(before, after, steps, *, in_order):
    """After `steps` of the second epoch, a resumed run trains on the rest of it, as the one that went on.

    in_order: the rest was not planned once more, from embeddings that a checkpoint does not hold.
    """
    done, rest, resumed = [], [], []
    for of_rank, again in zip(before, after, strict=True):
        batches = [rows for rows, _ in of_rank["1"]]
        done += batches[:steps]
        rest += batches[steps:]
        resumed += [rows for rows, _ in again["1"]]
    if in_order:
        assert resumed == rest
    rows = [row for batch in done + resumed for row in batch]
    assert len(rows) == len(set(rows))
    assert sum(map(len, resumed)) == sum(map(len, rest))
