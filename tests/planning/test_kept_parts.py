"""--work-dir: the plans of finished parts outlive the run, and what is damaged or of another run is planned again."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gcbs_cli.planning.engines.part import PartPlan
from gcbs_cli.planning.parts import kept
from gcbs_cli.planning.parts.kept import KeptParts, clear
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.progress import Progress

PARTS = [PartPlan(number, np.array([2, 0, 1]), "cpu", 0.5, 7, seconds={"order": 0.25}) for number in range(3)]


class Heard(Progress):
    """A watcher that remembers its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def opened(folder: Path, key: str = "key") -> KeptParts:
    """The folder with the plans of all parts."""
    store = KeptParts(folder, key, Progress())
    for part in PARTS:
        store.save(part)
    return store


def test_parts_are_loaded_as_they_were_saved(tmp_path: Path) -> None:
    opened(tmp_path / "work")
    assert stat.S_IMODE(os.stat(tmp_path / "work").st_mode) & 0o077 == 0
    again = KeptParts(tmp_path / "work", "key", Progress())
    for part in PARTS:
        found = again.load(part.number)
        assert found is not None
        assert found.order.dtype == np.int64
        assert found.order.tolist() == part.order.tolist()
        assert (found.threshold, found.edges, found.seconds) == (part.threshold, part.edges, part.seconds)
    clear(tmp_path / "work")
    assert not (tmp_path / "work").exists()


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit": _flip,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
    "of another part": lambda path: path.rename(path.with_name(path.name.replace("-00001-", "-00005-"))),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_part_is_not_taken(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    store = opened(tmp_path)
    damage(next(tmp_path.glob("part-*-00001-*.json")))
    assert store.load(0) is not None
    assert store.load(1) is None
    assert store.load(5) is None


def test_another_run_starts_anew_and_leaves_other_files_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    opened(tmp_path, "one")
    (tmp_path / f".part-{'0' * 16}-00001-{'0' * 32}.json.0123456789abcdef.gcbs-tmp").write_bytes(b"of a killed run")
    heard = Heard()
    store = KeptParts(tmp_path, "two", heard)
    assert store.load(0) is None
    assert "starting anew" in heard.notes[0]
    store.save(PARTS[0])
    clear(tmp_path)
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_disk_that_takes_nothing_only_costs_the_kept_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise GcbsError("no space left on the disk")

    monkeypatch.setattr(kept, "write", full)
    heard = Heard()
    store = KeptParts(tmp_path, "key", heard)
    store.save(PARTS[0])
    store.save(PARTS[1])
    assert heard.notes == ["no space left on the disk; going on without --work-dir"]


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "missing" / "deep", Path("nul\0")):
        with pytest.raises(BadInput, match="--work-dir"):
            KeptParts(folder, "key", Progress())
