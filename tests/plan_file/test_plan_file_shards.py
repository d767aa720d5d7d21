"""Permutations as folders of shards, which older versions wrote, are still read."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from plan_entries import build_entry
from typer.testing import CliRunner

from gcbs_cli.cli.app import app
from gcbs_cli.plan_file.check import load_plan
from gcbs_cli.plan_file.manifest import Manifest, ShardRecord
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.system.errors import BadInput

PERM = np.random.default_rng(0).permutation(70)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """plan/: three shards and their manifest."""
    monkeypatch.chdir(tmp_path)
    Path("plan").mkdir()
    shards = []
    for number, piece in enumerate(np.array_split(PERM, 3)):
        shards.append(ShardRecord(name=f"part-{number:05d}.npy", rows=len(piece)))
        np.save(f"plan/{shards[-1].name}", piece)
    manifest = Manifest(schema_version="1.1", entries=[build_entry(PERM, shards=shards)])
    Path("plan/manifest.json").write_text(manifest.model_dump_json())


def test_every_reader_takes_the_folder() -> None:
    assert read_permutation("plan/", 70).tolist() == PERM.tolist()
    assert load_plan("plan").batch_size == 4
    checked = CliRunner().invoke(app, ["check", "plan/", "--json"])
    assert (checked.exit_code, json.loads(checked.stdout)["ok"]) == (0, True)


def rename_first_shard(name: str) -> None:
    manifest = Path("plan/manifest.json")
    manifest.write_text(manifest.read_text().replace("part-00000.npy", name))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda: os.unlink("plan/part-00002.npy"), "file not found"),
        (lambda: np.save("plan/part-00001.npy", np.arange(3)), "3 indices, 23 in the manifest"),
        (lambda: Path("plan/part-00000.npy").write_bytes(b"x"), "found no valid .npy header"),
        (lambda: rename_first_shard("../secret.npy"), "is outside the folder of its manifest"),
        (lambda: rename_first_shard("part\\u0000.npy"), "cannot be opened"),
        (lambda: os.unlink("plan/manifest.json"), "is a folder without the manifest.json of a plan"),
    ],
    ids=["missing", "shorter", "no npy", "elsewhere", "a NUL", "no manifest"],
)
def test_damage_is_named(damage, message: str) -> None:
    damage()
    with pytest.raises(BadInput, match=message):
        read_permutation("plan")
