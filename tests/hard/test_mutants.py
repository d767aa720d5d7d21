"""Changes of the code that tests must notice. `python tests/hard/mutants.py` tries more and keeps them in a file."""

import json
from collections import Counter
from pathlib import Path

import pytest
from mutants import FOLDERS
from running import run_python

SCRIPT = Path(__file__).with_name("mutants.py")
MOST_UNNOTICED = 0.25
"""One change in ten or so gives the same results, and a sample is small."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_tests_notice_most_changes_of_the_code(folder, place, seeds):
    tries = seeds(10)
    words = ["--folder", folder, "--count", len(tries), "--seed", tries[0], "--lines", place / "mutants.jsonl"]
    run_python("import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')", SCRIPT, *words)
    mutants = [json.loads(line) for line in (place / "mutants.jsonl").read_text().splitlines()]
    assert len(mutants) == len(tries)
    unnoticed = [mutant for mutant in mutants if mutant["end"] == "survived"]
    print(folder, Counter(mutant["end"] for mutant in mutants))
    assert len(unnoticed) <= MOST_UNNOTICED * len(tries), unnoticed
