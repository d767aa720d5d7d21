"""Every reader, on a few of the files that `benchmarks/fuzz.py` tries by the ten thousand, and on what once failed."""

import random
import sys
from pathlib import Path

import pytest
from fuzz_inputs import WAYS, make_input
from fuzz_targets import TARGETS, attempt, input_kind, input_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TRIES = 12
CORPUS = Path(__file__).parent / "corpus"
MUST_FIT_OTHER_FILES = ("permutation", "report", "values")


@pytest.mark.parametrize("target", TARGETS)
def test_made_files_end_in_bad_input_or_a_right_result(tmp_path: Path, target: str) -> None:
    for way in WAYS:
        for seed in range(TRIES):
            attempt(target, input_of(target, way, seed), tmp_path)


@pytest.mark.parametrize("target", TARGETS)
@settings(deadline=None, max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_files_changed_by_hypothesis(tmp_path: Path, target: str, data: st.DataObject) -> None:
    """A whole file with pieces cut, set and put in, in ways that hypothesis chooses and shrinks."""
    kind = input_kind(target)
    content = bytearray(make_input(kind, "whole", random.Random(data.draw(st.integers(0, 50)))))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        stop = data.draw(st.integers(start, min(len(content), start + 16)))
        content[start:stop] = data.draw(st.binary(max_size=16))
    attempt(target, bytes(content), tmp_path)


@pytest.mark.parametrize("path", sorted(CORPUS.iterdir()), ids=lambda path: path.name)
def test_what_once_failed(tmp_path: Path, path: Path) -> None:
    target = next(
        name for name in sorted(TARGETS, key=len, reverse=True) if path.name.startswith(name.replace(" ", "-"))
    )
    attempt(target, path.read_bytes(), tmp_path)


@pytest.mark.parametrize("target", [name for name in TARGETS if not name.startswith(MUST_FIT_OTHER_FILES)])
def test_the_files_are_not_all_refused(tmp_path: Path, target: str) -> None:
    """Fuzzing that reaches nothing but the first check says nothing."""
    outcomes = {attempt(target, input_of(target, "whole", seed), tmp_path) for seed in range(60)}
    assert outcomes == {"read", "refused"}


def test_a_header_of_a_trillion_rows_takes_no_memory(tmp_path: Path) -> None:
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for target in TARGETS:
        for seed in range(20):
            attempt(target, input_of(target, "lying", seed), tmp_path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 300 * 2**20
