"""Run tutorial.py cell by cell, and write it with what it printed as a notebook and as a page.

Usage: ``python docs/make_tutorial.py``
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MARKDOWN, END = " [markdown]\n", "\f"
Cell = tuple[bool, str]
"""Whether it is code, and its text."""


def main() -> None:
    """Write both."""
    found = cells((HERE / "tutorial.py").read_text(encoding="utf-8"))
    printed = run(found)
    (HERE / "tutorial.ipynb").write_text(notebook(found, printed), encoding="utf-8")
    (HERE / "tutorial.md").write_text(page(found, printed), encoding="utf-8")


def cells(script: str) -> list[Cell]:
    """The cells of a script in the percent format."""
    found = []
    for part in script.split("# %%")[1:]:
        code = not part.startswith(MARKDOWN)
        text = part if code else "\n".join(line.removeprefix("#").removeprefix(" ") for line in part.splitlines()[1:])
        found.append((code, text.strip()))
    return found


def run(found: Sequence[Cell]) -> list[str]:
    """What each cell prints, in one process and a folder of its own."""
    end = f"print({END!r})"
    script = "\n".join(f"{text}\n{end}" if code else end for code, text in found)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", script], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split(f"{END}\n")[:-1]


def notebook(found: Sequence[Cell], printed: Sequence[str]) -> str:
    """As Jupyter reads it."""
    made: list[dict[str, Any]] = []
    for number, ((code, text), shown) in enumerate(zip(found, printed, strict=True)):
        cell: dict[str, Any] = {"cell_type": "markdown", "id": f"cell-{number}", "metadata": {}, "source": text}
        if code:
            output = {"output_type": "stream", "name": "stdout", "text": shown}
            cell |= {"cell_type": "code", "execution_count": None, "outputs": [output] if shown else []}
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def page(found: Sequence[Cell], printed: Sequence[str]) -> str:
    """As Markdown."""
    parts = ["<!-- Written by docs/make_tutorial.py from tutorial.py; tutorial.ipynb is the same as a notebook. -->"]
    for (code, text), shown in zip(found, printed, strict=True):
        parts.append(f"```python\n{text}\n```" if code else text)
        parts += [f"It prints\n\n```text\n{shown.strip()}\n```"] if shown else []
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
