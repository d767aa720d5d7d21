"""Every reader on the files that once failed or lie about themselves; `make test-hard` tries others by the thousand."""

from pathlib import Path

import pytest
from fuzz_targets import TARGETS, attempt

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_once_failed_or_lies_about_itself(tmp_path, path):
    fitting = [name for name in TARGETS if path.name.startswith(name.replace(" ", "-"))]
    attempt(max(fitting, key=len), path.read_bytes(), tmp_path)
