"""--work-dir: the plans of finished parts outlive the run, and what is damaged or of another run is planned again."""

import os
import stat

import numpy as np
import pytest
from unit_data import Listener

from gcbs_cli.planning.parts.kept import FILE, KeptParts, clear
from gcbs_cli.planning.parts.part import PartPlan
from gcbs_cli.system.progress import Progress

PARTS = [PartPlan(number, np.array([2, 0, 1]), "cpu", 0.5, 7, seconds={"order": 0.25}) for number in range(3)]


def saved(folder, key="key"):
    """Put the plans of all parts into the folder."""
    store = KeptParts(folder, key, Progress())
    for part in PARTS:
        store.save(part)


def loaded(folder, key="key", heard=None):
    return KeptParts(folder, key, heard or Progress()).parts


def test_parts_are_loaded_as_they_were_saved(tmp_path):
    saved(tmp_path / "work")
    assert stat.S_IMODE(os.stat(tmp_path / "work").st_mode) & 0o077 == 0
    found = loaded(tmp_path / "work")
    assert repr(list(found.values())) == repr(PARTS)
    assert found[0].order.dtype == np.int64
    clear(tmp_path / "work")
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("damage", "left"),
    [
        (lambda data: data.replace(b'"number": 1', b'"number": 5'), [0, 2]),
        (lambda data: data[:-1], [0, 1]),
        (lambda data: data[: len(data) // 2], [0]),
        (lambda data: b"\xff" + data, [0, 1, 2]),
        (lambda data: b"", []),
    ],
    ids=["a byte", "the last byte", "half", "a line before", "empty"],
)
def test_a_damaged_part_is_not_taken(tmp_path, damage, left):
    saved(tmp_path)
    (tmp_path / FILE).write_bytes(damage((tmp_path / FILE).read_bytes()))
    assert list(loaded(tmp_path)) == left


def test_a_part_saved_after_a_torn_one_is_whole(tmp_path):
    saved(tmp_path)
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-9])
    KeptParts(tmp_path, "key", Progress()).save(PARTS[2])
    assert list(loaded(tmp_path)) == [0, 1, 2]


def test_another_run_starts_anew_and_leaves_other_files_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    saved(tmp_path, "one")
    heard = Listener()
    assert loaded(tmp_path, "two", heard) == {}
    assert "starting over" in heard.notes[0]
    assert loaded(tmp_path, "one") == {}
    clear(tmp_path)
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_a_disk_that_takes_nothing_only_costs_the_kept_parts(tmp_path):
    heard = Listener()
    store = KeptParts(tmp_path, "key", heard)
    (tmp_path / FILE).mkdir()
    for part in PARTS:
        store.save(part)
    assert len(heard.notes) == 1
    assert heard.notes[0].endswith("continuing without --work-dir")
