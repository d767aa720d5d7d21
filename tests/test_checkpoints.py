"""--work-dir: a killed pass goes on where it was, with the same permutation, and leaves nothing when it is done."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from interrupted import Killed, watched_tiles
from unit_data import make_pair

from gcbs_cli.planning import checkpoints
from gcbs_cli.planning.checkpoints import Checkpoints, run_key
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products import tiles
from gcbs_cli.settings.plan import FalseNegativeSettings, GraphSettings, PlanSettings
from gcbs_cli.system.errors import BadInput, GcbsError

ROWS, TILE_ROWS = 300, 16
SETTINGS = {
    "quantile": PlanSettings(batch_size=8, tile_rows=TILE_ROWS, device="cpu", graph=GraphSettings(quantile=0.97)),
    "exact": PlanSettings(
        batch_size=8, tile_rows=TILE_ROWS, device="cpu", graph=GraphSettings(quantile=0.97, method="exact")
    ),
    "threshold": PlanSettings(batch_size=8, tile_rows=TILE_ROWS, device="cpu", graph=GraphSettings(threshold=0.3)),
    "top": PlanSettings(batch_size=8, tile_rows=TILE_ROWS, device="cpu", graph=GraphSettings(kind="top-m", top=4)),
    "top without suspects": PlanSettings(
        batch_size=8,
        tile_rows=TILE_ROWS,
        device="cpu",
        graph=GraphSettings(kind="top-m", top=4),
        false_negatives=FalseNegativeSettings(margin=0.95),
    ),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "BLOCK_ENTRIES", 3 * TILE_ROWS * ROWS)


def planned(folder: Path | None, settings: PlanSettings, stop_after: int | None = None, key: str = "key"):
    """The plan, or None when it was killed; how many entries the work was done for."""
    with watched_tiles(stop_after) as work:
        try:
            if folder is None:
                return make_plan(make_pair("related", ROWS), settings), work.entries
            with Checkpoints(folder, key) as store:
                return make_plan(make_pair("related", ROWS), settings, checkpoints=store), work.entries
        except Killed:
            return None, work.entries


def blocks(folder: Path) -> list[Path]:
    return sorted(folder.glob("block-*.npy"))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_killed_pass_goes_on_with_the_same_permutation(tmp_path: Path, settings: PlanSettings) -> None:
    whole, all_entries = planned(None, settings)
    assert whole is not None
    killed, _ = planned(tmp_path / "work", settings, stop_after=all_entries - ROWS * TILE_ROWS * 5)
    assert killed is None
    there = len(blocks(tmp_path / "work"))
    assert there >= 3
    result, entries = planned(tmp_path / "work", settings)
    assert result is not None
    assert (result.perm == whole.perm).all()
    assert (result.threshold, result.figures) == (whole.threshold, whole.figures)
    partial = 2  # blocks at the ends of passes
    assert entries <= all_entries - (there - partial) * 3 * TILE_ROWS * ROWS
    again, entries = planned(tmp_path / "work", settings)
    assert again is not None
    assert entries <= all_entries - ROWS * ROWS  # what is drawn before the pass
    assert (again.perm == whole.perm).all()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit": _flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "gone": lambda path: path.unlink(),
    "of another place": lambda path: path.rename(path.with_name(path.name.replace("-00001-", "-00002-"))),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_blocks_are_done_again(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    whole, _ = planned(None, SETTINGS["quantile"])
    planned(tmp_path, SETTINGS["quantile"])
    damage(blocks(tmp_path)[1])
    result, entries = planned(tmp_path, SETTINGS["quantile"])
    assert whole is not None
    assert result is not None
    assert entries == 3 * TILE_ROWS * ROWS
    assert (result.perm == whole.perm).all()
    assert planned(tmp_path, SETTINGS["quantile"])[1] == 0


def test_a_block_damaged_after_it_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, all_entries = planned(None, SETTINGS["top"])
    planned(tmp_path, SETTINGS["top"])
    load = Checkpoints.load
    seen: list[int] = []

    def load_once(self: Checkpoints, stage: str, number: int, block: str):
        seen.append(number)
        return None if number == 2 and seen.count(2) == 2 else load(self, stage, number, block)

    monkeypatch.setattr(Checkpoints, "load", load_once)
    result, entries = planned(tmp_path, SETTINGS["top"])
    assert whole is not None
    assert result is not None
    assert 3 * TILE_ROWS * ROWS <= entries < all_entries
    assert (result.perm == whole.perm).all()


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"batch_size": 9}, {"temperature": 0.1}, {"graph": GraphSettings(quantile=0.98)}],
    ids=["seed", "batch size", "temperature", "quantile"],
)
def test_what_decides_a_run_is_in_its_key(change: dict[str, object]) -> None:
    base = {"batch_size": 8}
    key = run_key("x", "y", PlanSettings(**base), normalize=True)  # type: ignore[arg-type]
    assert run_key("x", "y", PlanSettings(**base | change), normalize=True) != key  # type: ignore[arg-type]


def test_data_and_version_are_in_the_key_and_memory_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PlanSettings(batch_size=8)
    key = run_key("x", "y", settings, normalize=True)
    assert run_key("x", "y", PlanSettings(batch_size=8, max_memory=1 << 30), normalize=True) == key
    assert run_key("x", "z", settings, normalize=True) != key
    assert run_key("x", "y", settings, normalize=False) != key
    monkeypatch.setattr(checkpoints, "__version__", "99")
    assert run_key("x", "y", settings, normalize=True) != key


def test_another_run_starts_anew_and_takes_the_others_room(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    planned(tmp_path, SETTINGS["quantile"], key="one")
    before = blocks(tmp_path)
    _, entries = planned(tmp_path, SETTINGS["quantile"], key="two")
    assert entries == ROWS * ROWS
    assert not set(before) & set(blocks(tmp_path))
    with Checkpoints(tmp_path, "two") as store:
        store.clear()
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_other_tiles_are_not_taken_for_these(tmp_path: Path) -> None:
    whole, _ = planned(None, SETTINGS["threshold"])
    planned(tmp_path, SETTINGS["threshold"])
    other = PlanSettings(batch_size=8, tile_rows=20, device="cpu", graph=GraphSettings(threshold=0.3))
    result, entries = planned(tmp_path, other)
    assert whole is not None
    assert result is not None
    assert entries == ROWS * ROWS
    assert (result.perm == whole.perm).all()


def test_a_disk_that_does_not_take_a_block_only_costs_the_checkpoints(tmp_path: Path, monkeypatch) -> None:
    whole, _ = planned(None, SETTINGS["quantile"])

    def full(path: Path, write: object) -> None:
        if path.name.startswith("block"):
            raise GcbsError("no space left on the disk")
        path.write_bytes(b"{}")

    monkeypatch.setattr(checkpoints, "write", full)
    result, _ = planned(tmp_path, SETTINGS["quantile"])
    assert whole is not None
    assert result is not None
    assert (result.perm == whole.perm).all()


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "missing" / "deep", Path("nul\0")):
        with pytest.raises(BadInput, match="--work-dir"):
            Checkpoints(folder, "key")
    with Checkpoints(tmp_path / "work", "key"), pytest.raises(BadInput, match="another run is using it"):
        Checkpoints(tmp_path / "work", "key")
    assert stat.S_IMODE(os.stat(tmp_path / "work").st_mode) & 0o077 == 0


def test_too_little_room_is_said_before_the_pass(tmp_path: Path) -> None:
    with Checkpoints(tmp_path, "key") as store, pytest.raises(BadInput, match="--work-dir .* are free"):
        store.check_room(1 << 60)


def test_temporary_files_of_killed_writers_go(tmp_path: Path) -> None:
    left = f".block-00001-{'0' * 32}.npy.123.abcdef.gcbs-tmp"
    planned(tmp_path, SETTINGS["quantile"])
    (tmp_path / left).write_bytes(b"part")
    with Checkpoints(tmp_path, "key") as store:
        store.clear()
    assert not tmp_path.exists()


def test_killed_through_the_command_line(tmp_path: Path) -> None:
    """SIGKILL after the first block is there; the second run ends with the bytes of an undisturbed one."""
    rng = np.random.default_rng(0)
    for side in "xy":
        np.save(tmp_path / f"{side}.npy", rng.normal(size=(6000, 16)).astype(np.float32))
    script = (
        "from gcbs_cli.products import tiles; tiles.BLOCK_ENTRIES = 1 << 18;from gcbs_cli.__main__ import main; main()"
    )
    command = [sys.executable, "-c", script, "plan", "x.npy", "y.npy", "--chunk-rows", "16", "--device", "cpu"]
    subprocess.run([*command, "-o", "whole.npy", "-q"], cwd=tmp_path, check=True)
    command += ["-o", "perm.npy", "--work-dir", "work"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as run:
        while not blocks(tmp_path / "work") and run.poll() is None:
            time.sleep(0.001)
        run.send_signal(signal.SIGKILL)
    killed = run.returncode == -signal.SIGKILL
    assert (tmp_path / "perm.npy").exists() != killed
    subprocess.run([*command, "--force"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "perm.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    assert not (tmp_path / "work").exists()
