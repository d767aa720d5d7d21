import json
from pathlib import Path

import numpy as np
import pytest
from plan_entries import build_entry

from gcbs_cli.plan_file.manifest import (
    Manifest,
    entry_for,
    manifest_path,
    parse_manifest,
    read_manifest,
    write_manifest,
)
from gcbs_cli.system.errors import BadInput

PERM = np.arange(10)[::-1].copy()


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "perm.npy"
    assert read_manifest(path) is None
    write_manifest(path, [build_entry(PERM)])
    assert manifest_path(path) == tmp_path / "perm.npy.manifest.json"
    manifest = read_manifest(path)
    assert manifest == Manifest(entries=[build_entry(PERM)])
    assert entry_for(manifest, PERM) == build_entry(PERM)
    assert entry_for(manifest, np.arange(10)) is None
    content = json.loads(manifest_path(path).read_text())
    assert (content["schema"], content["schema_version"]) == ("gcbs.manifest", "2.0")
    assert content["entries"][0]["quantile"]["interval"] == [0.9985, 0.9993]


def test_a_newer_minor_version_is_read_and_its_fields_are_kept(tmp_path: Path) -> None:
    content = Manifest(entries=[build_entry(PERM)]).model_dump()
    content["schema_version"] = "2.7"
    content["entries"][0]["colour"] = "blue"
    content["entries"][0]["graph"]["triangles"] = 7
    manifest = parse_manifest(json.dumps(content).encode(), "file")
    write_manifest(tmp_path / "perm.npy", manifest.entries)
    text = manifest_path(tmp_path / "perm.npy").read_text()
    assert '"colour": "blue"' in text
    assert '"triangles": 7' in text


def test_a_manifest_from_before_the_grid_is_read() -> None:
    content = Manifest(entries=[build_entry(PERM)]).model_dump()
    content["schema_version"] = "1.1"
    for name in ("number", "scale"):
        del content["entries"][0]["quantile"][name]
    (entry,) = parse_manifest(json.dumps(content).encode(), "file").entries
    assert entry.quantile is not None
    assert (entry.quantile.number, entry.quantile.scale) == (None, None)
    assert entry.quantile.threshold == build_entry(PERM).quantile.threshold


def test_a_newer_major_version_says_so(tmp_path: Path) -> None:
    path = tmp_path / "perm.npy"
    manifest_path(path).write_text('{"schema": "gcbs.manifest", "schema_version": "3.0", "plans": []}')
    with pytest.raises(BadInput) as caught:
        read_manifest(path)
    expected = "schema_version: written by a newer gcbs (3.0, read here: 2.x); upgrade gcbs"
    assert str(caught.value) == f"{manifest_path(path)}: cannot be read as a gcbs manifest: {expected}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "found an empty file"),
        ("\xff", "the file: "),
        ("[]", "the file: Input should be an object"),
        ('{"schema": "other"}', "schema: Input should be"),
        ('{"schema": "gcbs.manifest", "schema_version": "\\u00b2"}', "schema_version: String should match"),
        ('{"schema": "gcbs.manifest", "schema_version": "1.0", "entries": [{}]}', "entries.0.tool_version"),
    ],
)
def test_a_damaged_manifest_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "perm.npy"
    manifest_path(path).write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput) as caught:
        read_manifest(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{manifest_path(path)}: ")
    assert "\n" not in str(caught.value)


def test_a_manifest_that_is_a_folder(tmp_path: Path) -> None:
    manifest_path(tmp_path / "perm.npy").mkdir()
    with pytest.raises(BadInput, match="found a directory"):
        read_manifest(tmp_path / "perm.npy")
