"""Files that once failed or lie about themselves, each through its command; `make test-hard` tries others."""

from pathlib import Path

import pytest
from reading_commands import check_command

CORPUS = Path(__file__).parent / "corpus"
SUFFIXES = {"report": ".json", "config": ".toml"}


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_once_failed_or_lies_about_itself(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    target = path.name.split("-")[0]
    check_command(target, SUFFIXES.get(target, f".{target.rpartition('.')[2]}"), path.read_bytes(), tmp_path)
