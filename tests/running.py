"""The command line in this process, and code in a Python of its own."""

import os
import subprocess
import sys
from pathlib import Path

SAMPLE = Path(__file__).parents[1] / "sample_data"


def run_python(code, *words, timeout=300, **environment):
    """What the code prints, given these words and, beside this process's, these environment variables."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, words)]
    variables = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
