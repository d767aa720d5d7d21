"""Every reader, on a few of the files that `make test-hard` tries by the thousand, and on those in corpus."""

import resource
import sys
from pathlib import Path

import pytest
from fuzz_inputs import WAYS
from fuzz_targets import TARGETS, attempt, input_of

TRIES = {"whole": 60, "lying": 12, "overwritten": 20}
"""Of the other ways: 6."""
CORPUS = Path(__file__).parent / "corpus"
MUST_FIT_OTHER_FILES = ("permutation", "report", "values", "applied", "texts", "saved")


@pytest.mark.parametrize("target", TARGETS)
def test_made_files_end_in_bad_input_or_a_right_result(tmp_path, target):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for way in WAYS:
        outcomes = {attempt(target, input_of(target, way, seed), tmp_path) for seed in range(TRIES.get(way, 6))}
        if way == "whole" and not target.startswith(MUST_FIT_OTHER_FILES):
            # Fuzzing that reaches nothing but the first check says nothing.
            assert outcomes == {"read", "refused"}
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before  # headers may tell of a trillion rows
    assert grown * (1 if sys.platform == "darwin" else 1024) < 300 * 2**20


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_once_failed_or_lies_about_itself(tmp_path, path):
    fitting = [name for name in TARGETS if path.name.startswith(name.replace(" ", "-"))]
    attempt(max(fitting, key=len), path.read_bytes(), tmp_path)
