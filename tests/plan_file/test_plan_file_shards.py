"""Permutations as folders of shards."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gcbs_cli.cli.app import app
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.system.errors import BadInput


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """x.npy, y.npy and their plan in four parts, plan/."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(400, 8))
    np.save("x.npy", x)
    np.save("y.npy", x + 0.5 * generator.normal(size=x.shape))
    assert gcbs("plan", "x.npy", "y.npy", "--partitions", "4", "-k", "16", "-o", "plan/").exit_code == 0
    return tmp_path


def gcbs(*words: str):
    return CliRunner().invoke(app, list(words))


def test_shards_are_the_parts_in_plan_order(folder: Path) -> None:
    record = json.loads(Path("plan/manifest.json").read_text())["entries"][0]
    names = sorted(name for name in os.listdir("plan") if name != "manifest.json")
    assert names == [shard["name"] for shard in record["shards"]]
    assert [name[:11] for name in names] == [f"part-{number:05d}-" for number in range(4)]
    assert [len(np.load(f"plan/{name}")) for name in names] == record["partitions"]["sizes"]
    whole = np.concatenate([np.load(f"plan/{name}") for name in names])
    assert (read_permutation("plan") == whole).all()
    assert gcbs("plan", "x.npy", "y.npy", "--partitions", "4", "-k", "16", "-o", "perm.npy").exit_code == 0
    assert (np.load("perm.npy") == whole).all()


def test_every_reader_takes_the_folder(folder: Path) -> None:
    assert gcbs("check", "plan/", "x.npy", "y.npy").exit_code == 0
    report = gcbs("report", "x.npy", "y.npy", "-p", "plan", "--json")
    assert json.loads(report.stdout)["batch_size"] == 16
    Path("rows.jsonl").write_text("".join(f"{n}\n" for n in range(400)))
    assert gcbs("apply", "plan/", "rows.jsonl", "-o", "out.jsonl").exit_code == 0
    assert [int(line) for line in Path("out.jsonl").read_text().split()] == read_permutation("plan").tolist()


def test_the_sampler_takes_the_folder(folder: Path) -> None:
    pytest.importorskip("torch")
    from gcbs_cli.trainers import PlannedBatchSampler

    sampler = PlannedBatchSampler("plan", batch_size=16)
    assert next(iter(sampler)) == read_permutation("plan")[:16].tolist()


def rename_first_shard(name: str) -> None:
    manifest = Path("plan/manifest.json")
    manifest.write_text(manifest.read_text().replace(shard(0), name))


def shard(number: int) -> str:
    (found,) = (path.name for path in Path("plan").glob(f"part-{number:05d}-*.npy"))
    return found


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda: os.unlink(f"plan/{shard(2)}"), "found no such file"),
        (lambda: np.save(f"plan/{shard(1)}", np.arange(3)), "3 indices, 96 in the manifest"),
        (lambda: Path(f"plan/{shard(0)}").write_bytes(b"x"), "found no valid .npy header"),
        (lambda: rename_first_shard("../secret.npy"), "is outside the folder of its manifest"),
        (lambda: rename_first_shard("part\\u0000.npy"), "cannot be opened"),
        (lambda: os.unlink("plan/manifest.json"), "is a folder without the manifest.json of a plan"),
    ],
    ids=["missing", "shorter", "no npy", "elsewhere", "a NUL", "no manifest"],
)
def test_damage_is_named(folder: Path, damage, message: str) -> None:
    damage()
    with pytest.raises(BadInput, match=message):
        read_permutation("plan")
