"""Sizes of memory as people write them, and limits on the address space."""

import resource

import pytest
from running import SAMPLE, run_gcbs

from gcbs_cli.settings.plan import WorkSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import available_memory, parse_size, show_size

SIZES = {"1500000": 1_500_000, "0": 0, "512M": 2**29, "4GiB": 2**32, "4g": 2**32, "1.5k": 1536, " 2 T ": 2**41, "7b": 7}
SIZES["9" * 20 + "T"] = 2**60


@pytest.mark.parametrize("text", SIZES)
def test_sizes_as_people_write_them_and_as_bytes(text):
    assert parse_size(text) == parse_size(SIZES[text]) == SIZES[text]


@pytest.mark.parametrize("text", ["", "G", "-4G", "4X", "4GG", "1e9", "4 G 5", "1,5G", "nan", "inf"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(BadInput, match=r"^--max-memory .*expected a size such as"):
        WorkSettings(max_memory=text)


def test_sizes_for_people_and_what_the_address_space_leaves(monkeypatch):
    shown = {0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1.5 * 2**30: "1.5 GiB", 3000 * 2**40: "2.9 PiB"}
    assert {size: show_size(size) for size in shown} == shown
    resource = pytest.importorskip("resource")
    without = available_memory()
    assert 2**20 < without < 2**50
    limit = 2**36
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert 0 <= available_memory() <= min(without + 2**28, limit)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (2**20, 2**20))
    assert available_memory() == 0


@pytest.mark.parametrize(
    ("command", "mebibytes", "code"),
    [
        ("plan -o perm.npy", 150, 2),
        ("plan -o perm.npy", 300, 2),
        ("plan -o perm.npy", 4000, 0),
        ("compare --train", 1000, 2),
    ],
)
def test_a_limited_address_space(tmp_path, command, mebibytes, code):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))

    name, *rest = command.split()
    run = run_gcbs(name, SAMPLE / "x.npy", SAMPLE / "y.npy", "-q", *rest, cwd=tmp_path, preexec_fn=limit)
    assert run.returncode == code, run.stderr
    if code:
        assert run.stderr.startswith("gcbs: the limit on memory (ulimit -v) leaves")
        assert len(run.stderr.splitlines()) == 1
        assert not (tmp_path / "perm.npy").exists()
