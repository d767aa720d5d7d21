"""Manifests of this version and of others, and what is checked against them."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from unit_data import build_entry

from gcbs_cli.plan_file.manifest import (
    Manifest,
    ShardRecord,
    entry_for,
    manifest_path,
    plan_files,
    read_entries,
    write_manifest,
)
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.plan_file.plans import check_plan, load_plan
from gcbs_cli.system.errors import BadInput

PERM = np.array([4, 2, 0, 1, 3])


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "perm.npy"
    assert read_entries(path) == []
    write_manifest(path, [build_entry(PERM)])
    assert manifest_path(path) == tmp_path / "perm.npy.manifest.json"
    entries = read_entries(path)
    assert entries == [build_entry(PERM)]
    assert entry_for(entries, PERM) == build_entry(PERM)
    assert entry_for(entries, np.arange(10)) is None
    content = json.loads(manifest_path(path).read_text())
    assert manifest_path(path).read_text() == json.dumps(content, indent=2) + "\n"
    assert (content["schema"], content["schema_version"]) == ("gcbs.manifest", "2.0")
    assert content["entries"][0]["quantile"]["interval"] == [0.9985, 0.9993]


def test_manifests_of_older_and_newer_versions_are_read_but_not_of_a_newer_major_one(tmp_path):
    content = Manifest(entries=[build_entry(PERM)]).model_dump()
    content["schema_version"] = "2.7"
    content["entries"][0]["colour"] = "blue"
    content["entries"][0]["graph"]["triangles"] = 7
    path = tmp_path / "perm.npy"
    manifest_path(path).write_text(json.dumps(content))
    write_manifest(path, read_entries(path))
    text = manifest_path(path).read_text()
    assert '"colour": "blue"' in text
    assert '"triangles": 7' in text
    content = Manifest(entries=[build_entry(PERM)]).model_dump()
    content["schema_version"] = "1.1"
    for name in ("number", "scale"):
        del content["entries"][0]["quantile"][name]
    manifest_path(path).write_text(json.dumps(content))
    (entry,) = read_entries(path)
    assert entry.quantile is not None
    assert (entry.quantile.number, entry.quantile.scale) == (None, None)
    assert entry.quantile.threshold == build_entry(PERM).quantile.threshold
    manifest_path(path).write_text('{"schema": "gcbs.manifest", "schema_version": "3.0", "plans": []}')
    with pytest.raises(BadInput) as caught:
        read_entries(path)
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
def test_a_damaged_manifest_is_one_line(tmp_path, text, says):
    path = tmp_path / "perm.npy"
    manifest_path(path).write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput) as caught:
        read_entries(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{manifest_path(path)}: ")
    assert "\n" not in str(caught.value)


def data(x, y, rows=5):
    """What was read."""
    return SimpleNamespace(fingerprints=(f"xxh3:{x}", f"xxh3:{y}"), rows=rows)


ENTRY = build_entry(PERM)
CHECKED = {
    "the plan and its data": ((PERM, ENTRY, data("x", "y")), "ok ok ok ok ok"),
    "other X": ((PERM, ENTRY, data("other", "y")), "ok ok error ok ok"),
    "other Y": ((PERM, ENTRY, data("x", "other")), "ok ok ok error ok"),
    "sides swapped": ((PERM, ENTRY, data("y", "x")), "ok ok error ok"),
    "no data": ((PERM, ENTRY), "ok ok ok"),
    "fewer rows than its entry's": ((PERM[:3].argsort(), ENTRY), "error error ok"),
    "another permutation": ((np.arange(5), ENTRY), "ok error ok"),
    "no manifest": ((PERM, None), "ok warning"),
    "no manifest, a row twice": ((np.array([0, 0, 1]), None), "error warning"),
    "no manifest, more rows": ((PERM, None, data("x", "y", 6)), "error warning"),
    "no manifest, below 0": ((np.array([0, 1, -1]), None, data("x", "y", 3)), "error warning"),
}
"""What is checked, and how the findings are to be."""


@pytest.mark.parametrize("case", CHECKED)
def test_a_plan_is_checked_against_its_entry_and_its_data(case):
    given, levels = CHECKED[case]
    assert " ".join(finding.level for finding in check_plan(*given)) == levels


def test_the_parts_of_a_plan_are_known_unless_its_batches_were_shuffled():
    parts = {"parts": 2, "sizes": [3, 2], "moved": 0}
    for order in ({}, {"shuffle_batches": False}, {"shuffle_batches": True}, {"shuffle": True}):
        sizes = None if any(order.values()) else [3, 2]
        assert build_entry(PERM, partitions=parts, method_settings={"batch_order": order}).part_sizes == sizes
    assert ENTRY.part_sizes is None


def test_findings_are_stated():
    said = [finding.message for finding in check_plan(PERM, ENTRY)]
    assert said[0] == "a permutation of 0..4: each row once"
    assert said[-1] == "batch size 4: 1 full batch and a last one of 1 row"
    *_, full = check_plan(PERM, build_entry(PERM, batch_size=5))
    assert full.message == "batch size 5: 1 full batch"
    *_, dropped = check_plan(PERM, build_entry(PERM, batch_size=2, drop_last=True))
    assert dropped.message == "batch size 2: 2 full batches and 1 row that the trainer drops"


SHARDED = np.random.default_rng(0).permutation(70)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """plan/: three shards and their manifest."""
    monkeypatch.chdir(tmp_path)
    Path("plan").mkdir()
    shards = []
    for number, piece in enumerate(np.array_split(SHARDED, 3)):
        shards.append(ShardRecord(name=f"part-{number:05d}.npy", rows=len(piece)))
        np.save(f"plan/{shards[-1].name}", piece)
    manifest = Manifest(schema_version="1.1", entries=[build_entry(SHARDED, shards=shards)])
    Path("plan/manifest.json").write_text(manifest.model_dump_json())


def test_every_reader_takes_the_folder(gcbs):
    assert read_permutation("plan/", 70).tolist() == SHARDED.tolist()
    assert load_plan("plan").batch_size == 4
    assert [plan_files(name) for name in ("-", None)] == [[], []]
    assert plan_files("p.npy") == ["p.npy", Path("p.npy.manifest.json")]
    checked = gcbs("check", "-p", "plan/", "--json")
    assert (checked.exit_code, json.loads(checked.stdout)["ok"]) == (0, True)


def rename_first_shard(name):
    manifest = Path("plan/manifest.json")
    manifest.write_text(manifest.read_text().replace("part-00000.npy", name))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda: os.unlink("plan/part-00002.npy"), "file not found"),
        (lambda: np.save("plan/part-00001.npy", np.arange(3)), "more than once|50 indices"),
        (lambda: Path("plan/part-00000.npy").write_bytes(b"x"), "found no valid .npy header"),
        (lambda: rename_first_shard("../secret.npy"), "is outside the folder of its manifest"),
        (lambda: rename_first_shard("part\\u0000.npy"), "cannot be opened"),
        (lambda: os.unlink("plan/manifest.json"), "is a folder without the manifest.json of a plan"),
    ],
    ids=["missing", "shorter", "no npy", "elsewhere", "a NUL", "no manifest"],
)
def test_damage_is_named(damage, message):
    damage()
    with pytest.raises(BadInput, match=message):
        read_permutation("plan", 70)
