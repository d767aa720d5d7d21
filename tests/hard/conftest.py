"""What a release should pass: faults, random input, long runs. `make test-hard` runs it, nothing else does."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
BENCHMARKS = TESTS.parent / "benchmarks"
sys.path[:0] = [str(TESTS / room) for room in ("data", "fuzz", "trainers")]
sys.path += [str(BENCHMARKS), str(BENCHMARKS / "planning")]  # scripts import their neighbours
from tests.trainers.conftest import launch, perm, plan_path  # noqa: F401


def pytest_addoption(parser):
    parser.addoption("--tries", type=int, help="how often each of the hard tests tries, in place of its own number")
    parser.addoption("--first-seed", type=int, default=0, help="other seeds, other tries (default %(default)s)")


@pytest.fixture
def seeds(request):
    """Takes the number of tries that a test makes by default; returns the seeds of its tries."""
    first, tries = request.config.getoption("--first-seed"), request.config.getoption("--tries")
    return lambda default: range(first, first + (tries or default))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to work in, in a folder of its own."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder
