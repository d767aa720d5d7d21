import numpy as np
import pytest
from plan_entries import build_entry

from gcbs_cli.plan_file import check
from gcbs_cli.plan_file.check import Finding, entry_to_check
from gcbs_cli.plan_file.manifest import Manifest

PERM = np.array([4, 2, 0, 1, 3])


def check_plan(*arguments, **named) -> list[Finding]:
    return list(check.check_plan(*arguments, **named))


def levels(findings) -> list[str]:
    return [finding.level for finding in findings]


def test_a_plan_with_its_manifest_and_its_data() -> None:
    findings = check_plan(PERM, build_entry(PERM), "xxh3:x", "xxh3:y", 5)
    assert levels(findings) == ["ok"] * 5
    assert findings[0].message == "a permutation of 0..4: each row once"
    assert findings[-1].message == "batch size 4: 1 full batch and a last one of 1 row"


def test_the_entry_says_how_many_rows() -> None:
    findings = check_plan(PERM[:3].argsort(), build_entry(PERM))
    assert levels(findings)[:2] == ["error", "error"]
    assert "3 indices, but the data has 5 rows" in findings[0].message


@pytest.mark.parametrize(
    ("perm", "rows", "level"),
    [(PERM, None, "ok"), (np.array([0, 0, 1]), None, "error"), (PERM, 6, "error"), (np.array([0, 1, -1]), 3, "error")],
)
def test_without_a_manifest_only_the_order_is_known(perm: np.ndarray, rows: int | None, level: str) -> None:
    assert levels(check_plan(perm, None, rows=rows)) == [level, "warning"]


def test_the_manifest_of_another_permutation() -> None:
    manifest = Manifest(entries=[build_entry(PERM)])
    assert entry_to_check(manifest, PERM) == build_entry(PERM)
    other = entry_to_check(manifest, np.arange(5))
    findings = check_plan(np.arange(5), other)
    assert levels(findings) == ["ok", "error", "ok"]
    assert "of another permutation" in findings[1].message
    assert entry_to_check(None, PERM) is None
    assert entry_to_check(Manifest(entries=[]), PERM) is None


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ("xxh3:x", None, ["ok"]),
        ("xxh3:other", "xxh3:y", ["error", "ok"]),
        ("xxh3:x", "xxh3:other", ["ok", "error"]),
        ("xxh3:y", "xxh3:x", ["error"]),
        (None, None, []),
    ],
    ids=["X alone", "other X", "other Y", "swapped", "no data"],
)
def test_the_data_it_was_made_from(x: str | None, y: str | None, expected: list[str]) -> None:
    assert levels(check_plan(PERM, build_entry(PERM), x, y))[2:-1] == expected


def test_the_batch_size_is_stated() -> None:
    assert check_plan(PERM, build_entry(PERM, batch_size=5))[-1].message == "batch size 5: 1 full batch"
    dropped = check_plan(PERM, build_entry(PERM, batch_size=2, drop_last=True))[-1].message
    assert dropped == "batch size 2: 2 full batches and 1 row that the trainer drops"
