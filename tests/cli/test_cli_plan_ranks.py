"""`gcbs plan --world-size W --gather/--no-gather`: checked before the work, recorded in the manifest."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from gcbs_cli.plan_file.manifest import read_manifest

Gcbs = Callable[..., Result]
PLAN = ("plan", "x.npy", "y.npy", "-k", "16")  # 300 pairs: 18 full batches


def test_gather_is_recorded(gcbs: Gcbs, folder: Path) -> None:
    assert gcbs(*PLAN, "--world-size", 4, "--gather").exit_code == 0
    manifest = read_manifest(folder / "perm.npy")
    assert manifest is not None
    assert (manifest.entries[0].world_size, manifest.entries[0].gather) == (4, True)


def test_without_gathering_the_full_batches_of_each_rank_are_stated(gcbs: Gcbs, folder: Path) -> None:
    result = json.loads(gcbs(*PLAN, "--world-size", 4, "--json").stdout)
    assert (result["world_size"], result["gather"], result["full_batches_per_rank"]) == (4, False, 4)
    assert "4: 4 full batches each, 2 over" in gcbs(*PLAN, "--world-size", 4, "--force").stdout


def test_ranks_not_named_are_not_recorded(gcbs: Gcbs, folder: Path) -> None:
    result = json.loads(gcbs(*PLAN, "--json").stdout)
    assert result["world_size"] is None
    assert "full_batches_per_rank" not in result


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--world-size", "0"], "--world-size 0: expected at least 1"),
        (["--world-size", "19"], "18 full batches of 16, fewer than one for each rank"),
    ],
)
def test_what_does_not_fit_is_refused(options: list[str], said: str, gcbs: Gcbs, folder: Path) -> None:
    result = gcbs(*PLAN, *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not (folder / "perm.npy").exists()
