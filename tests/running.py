"""The command line in this process, and code in a Python of its own."""

import os
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "sample_data"
LONGEST_WAIT = 1200.0
"""Seconds until what hangs is given up. No measure of speed: beside other work a machine may take ten times as long."""


def run_python(code, *words, **environment):
    """What the code prints, given these words and, beside this process's, these environment variables."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, words)]
    variables = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_gcbs(*words, **options):
    """The command line in a process of its own, once it has ended."""
    command = [sys.executable, "-m", "gcbs_cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_WAIT, **options)


def run_bash(line):
    """A line of bash, in which `gcbs` is the command line and buffers what it prints, once it has ended."""
    lines = f'unset PYTHONUNBUFFERED\ngcbs() {{ "{sys.executable}" -m gcbs_cli "$@"; }}\n{line}'
    return subprocess.run(["bash", "-ec", lines], capture_output=True, text=True, timeout=LONGEST_WAIT)


def files_of(folder):
    """What every file of a folder and of those in it holds."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
