"""Permutations as folders of shards."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gcbs_cli.cli.app import app
from gcbs_cli.plan_file import shards
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.system.errors import BadInput, GcbsError


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
    assert names == [f"part-{number:05d}.npy" for number in range(4)] == [s["name"] for s in record["shards"]]
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


def test_a_plan_without_parts_is_one_shard_or_several(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SHARD_ROWS", 100)
    assert gcbs("plan", "x.npy", "y.npy", "-k", "16", "-o", "whole/").exit_code == 0
    sizes = [len(np.load(path)) for path in sorted(Path("whole").glob("*.npy"))]
    assert sizes == [96, 96, 96, 96, 16]
    assert sorted(read_permutation("whole").tolist()) == list(range(400))


def test_an_older_plan_is_replaced_with_force_alone(folder: Path) -> None:
    before = read_permutation("plan")
    refused = gcbs("plan", "x.npy", "y.npy", "-k", "16", "-o", "plan/")
    assert refused.exit_code == 2
    assert "exists; use --force" in refused.output
    assert (read_permutation("plan") == before).all()
    assert gcbs("plan", "x.npy", "y.npy", "-k", "16", "-o", "plan/", "--force").exit_code == 0
    assert os.listdir("plan").count("part-00001.npy") == 0
    assert not [name for name in os.listdir(".") if name.startswith(".")]


def test_a_folder_that_is_no_plan_is_left_alone(folder: Path) -> None:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("mine")
    result = gcbs("plan", "x.npy", "y.npy", "-o", "mine", "--force")
    assert result.exit_code == 2
    assert "is a folder and no plan (holds notes.txt)" in " ".join(result.output.split())


@pytest.mark.parametrize("exchange", [True, False], ids=["exchanged", "moved aside"])
def test_a_failed_write_leaves_the_older_plan(folder: Path, exchange: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from gcbs_cli.plan_file import writing

    if not exchange:
        monkeypatch.setattr(writing, "_exchange", lambda one, other: False)
    before = read_permutation("plan")

    def full(file, perm):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shards.formats, "write_npy", full)
        assert gcbs("plan", "x.npy", "y.npy", "-k", "16", "-o", "plan/", "--force").exit_code == 1
    assert (read_permutation("plan") == before).all()
    assert not [name for name in os.listdir(".") if name.startswith(".")]
    assert gcbs("plan", "x.npy", "y.npy", "-k", "16", "-o", "plan/", "--force").exit_code == 0
    assert (read_permutation("plan") != before).any()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda: os.unlink("plan/part-00002.npy"), "found no such file"),
        (lambda: np.save("plan/part-00001.npy", np.arange(3)), "3"),
        (lambda: Path("plan/part-00000.npy").write_bytes(b"x"), "found no valid .npy header"),
        (
            lambda: Path("plan/manifest.json").write_text(
                Path("plan/manifest.json").read_text().replace("part-00000.npy", "../secret.npy")
            ),
            "names a file outside the folder",
        ),
        (
            lambda: Path("plan/manifest.json").write_text(
                Path("plan/manifest.json").read_text().replace("part-00000.npy", "part\\u0000.npy")
            ),
            "cannot be opened",
        ),
    ],
    ids=["missing", "shorter", "no npy", "elsewhere", "a NUL"],
)
def test_damage_is_named(folder: Path, damage, message: str) -> None:
    damage()
    with pytest.raises((BadInput, GcbsError), match=message):
        read_permutation("plan")


def test_a_folder_without_shards_is_no_plan(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"is a folder without part-\*\.npy"):
        read_permutation(tmp_path)
