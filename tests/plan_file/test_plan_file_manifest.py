"""Manifests of this version and of newer ones, and what is checked against them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from unit_data import build_manifest

from gcbs_cli.plan_file.manifest import manifest_path, read_manifest
from gcbs_cli.plan_file.plans import check_plan, save_plan
from gcbs_cli.system.errors import BadInput

PERM = np.array([4, 2, 0, 1, 3])


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "perm.npy"
    assert read_manifest(path) is None
    save_plan(path, PERM, build_manifest(PERM))
    assert manifest_path(path) == tmp_path / "perm.npy.manifest.json"
    manifest = read_manifest(path)
    assert manifest == build_manifest(PERM)
    assert manifest.is_of(PERM)
    assert not manifest.is_of(np.arange(5))
    content = json.loads(manifest_path(path).read_text())
    assert manifest_path(path).read_text() == json.dumps(content, indent=2) + "\n"
    assert (content["schema"], content["schema_version"]) == ("gcbs.manifest", "1.0")
    assert content["quantile"]["interval"] == [0.9985, 0.9993]


def test_newer_minor_versions_are_read_and_newer_major_ones_say_so(tmp_path):
    path = tmp_path / "perm.npy"
    content = build_manifest(PERM).model_dump(mode="json") | {"schema_version": "1.7", "colour": "blue"}
    manifest_path(path).write_text(json.dumps(content))
    assert read_manifest(path) == build_manifest(PERM, schema_version="1.7")
    manifest_path(path).write_text('{"schema": "gcbs.manifest", "schema_version": "2.0", "plans": []}')
    with pytest.raises(BadInput) as caught:
        read_manifest(path)
    expected = f"{manifest_path(path)}: cannot be read as a gcbs manifest: schema_version: String should match pattern"
    assert str(caught.value).startswith(expected)
    assert str(caught.value).endswith("plan again, or upgrade gcbs if a newer one wrote it")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read as a gcbs manifest: the file: Invalid JSON"),
        ("\xff", "the file: "),
        ("[]", "the file: Input should be an object"),
        ('{"schema": "other"}', "schema: Input should be"),
        ('{"schema": "gcbs.manifest", "schema_version": "\\u00b2"}', "schema_version: String should match"),
        ('{"schema": "gcbs.manifest", "schema_version": "1.0"}', "tool_version: Field required"),
    ],
)
def test_a_damaged_manifest_is_one_line(tmp_path, text, says):
    path = tmp_path / "perm.npy"
    manifest_path(path).write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput) as caught:
        read_manifest(path)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{manifest_path(path)}: ")
    assert "\n" not in str(caught.value)


def data(x, y, rows=5):
    """What was read."""
    return SimpleNamespace(fingerprints=(f"xxh3:{x}", f"xxh3:{y}"), rows=rows)


MANIFEST = build_manifest(PERM)
CHECKED = {
    "the plan and its data": ((PERM, MANIFEST, data("x", "y")), "ok ok ok ok ok"),
    "other X": ((PERM, MANIFEST, data("other", "y")), "ok ok error ok ok"),
    "other Y": ((PERM, MANIFEST, data("x", "other")), "ok ok ok error ok"),
    "sides swapped": ((PERM, MANIFEST, data("y", "x")), "ok ok error error ok"),
    "no data": ((PERM, MANIFEST), "ok ok ok"),
    "a manifest of more rows than any memory holds": ((PERM, build_manifest(PERM, rows=10**30)), "error ok ok"),
    "another permutation": ((np.arange(5), MANIFEST), "ok error ok"),
    "no manifest": ((PERM, None), "ok warning"),
    "no manifest, a row twice": ((np.array([0, 0, 1]), None), "error warning"),
}
"""What is checked, and how the findings are to be."""


@pytest.mark.parametrize("case", CHECKED)
def test_a_plan_is_checked_against_its_manifest_and_its_data(case):
    given, levels = CHECKED[case]
    assert " ".join(finding.level for finding in check_plan(*given)) == levels


def test_findings_are_stated():
    said = [finding.message for finding in check_plan(PERM, MANIFEST)]
    assert said[0] == "a permutation of 0..4: each row once"
    assert said[-1] == "batch size: 4; full batches: 1; rows in a last one: 1"
    *_, full = check_plan(PERM, build_manifest(PERM, batch_size=5))
    assert full.message == "batch size: 5; full batches: 1; rows in a last one: 0"
    *_, dropped = check_plan(PERM, build_manifest(PERM, batch_size=2, drop_last=True))
    assert dropped.message == "batch size: 2; full batches: 2; rows that the trainer drops: 1"
