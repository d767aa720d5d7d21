"""The command line in this process, and code in a Python of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from typer.testing import Result

Gcbs = Callable[..., Result]
"""Words of the command line, perhaps stdin, and what comes of them."""
SAMPLE = Path(__file__).parents[1] / "sample_data"


def run_python(code: str, *words: object, timeout: float = 300, **environment: Any) -> str:
    """What the code prints, given these words and, beside this process's, these environment variables."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, words)]
    variables = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
