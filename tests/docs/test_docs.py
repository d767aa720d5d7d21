"""The docs hold: made pages are current, command lines run, named tests exist, and the tutorial is its script."""

import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from running import LONGEST_WAIT, run_bash

from gcbs_cli.cli.app import COMMANDS
from gcbs_cli.settings.others import model_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ROWS = 400
TRIED = ["choosing.md", "reading-a-report.md", "false-negatives.md", "inputs.md", "scaling.md", "method.md"]
"""Pages whose command lines run here; those of trainers and clusters need what is not on every machine."""
ELSEWHERE = ("python ", "pip ", "make ", "gcbs embed", "://", "| jq", "cd ", "git ")
"""Lines that other tests cover or that need the reader's own script."""


def test_generated_pages_are_current_and_every_command_has_an_example():
    for name, wanted in runpy.run_path(str(DOCS / "generate.py"))["pages"]().items():
        assert (DOCS / name).read_text(encoding="utf-8") == wanted, f"{name} is stale: run  python docs/generate.py"
    for name in COMMANDS:
        assert f"gcbs {name}" in str(model_of(name).__doc__), f"gcbs {name}: its help shows no example"


def command_lines(page):
    """The gcbs lines of its shell blocks, without comments; the method's tables hold commands, too."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"\| `(gcbs [^`]+)` \|", text) if page.name == "method.md" else []
    lines = [re.sub(r"\s#.*$", "", line).strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not any(word in line for word in ELSEWHERE)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """What the docs' reader has: x.npy, y.npy, pairs.parquet, own.parquet with other names, and values of the rows."""
    monkeypatch.chdir(tmp_path)
    for side in "xy":
        np.save(tmp_path / f"{side}.npy", np.load(ROOT / "sample_data" / f"{side}.npy")[:ROWS])
    pairs = pq.read_table(ROOT / "sample_data" / "pairs.parquet").slice(0, ROWS)
    pq.write_table(pairs, tmp_path / "pairs.parquet")
    for name, values in {"labels": [1, 0], "grades": [0.9, 0.3], "ids": range(ROWS // 2)}.items():
        np.savetxt(tmp_path / f"{name}.txt", np.resize(values, ROWS), fmt="%g")
    own = {"x": "query_emb", "y": "doc_emb", "id": "query_id"}
    pq.write_table(pairs.rename_columns([own.get(name, name) for name in pairs.column_names]), tmp_path / "own.parquet")
    return tmp_path


@pytest.mark.parametrize("name", ["../README.md", *TRIED], ids=lambda name: name.removeprefix("../"))
def test_the_command_lines_run(gcbs, folder, name):
    lines = command_lines(DOCS / name)
    assert lines, f"{name}: shows no command"
    for line in lines:
        words = shlex.split(line)
        plain = words[0] == "gcbs" and not any(sign in line for sign in ("|", "&&", "*"))
        for output in [words[n + 1] for n, word in enumerate(words[:-1]) if word in ("-o", "--html", "--report")]:
            Path(output).unlink(missing_ok=True)  # every block may begin anew
        if plain:
            result = gcbs(*words[1:])
            assert result.exit_code == 0, (line, result.output)
        else:
            done = run_bash(line)
            assert done.returncode == 0, (line, done.stderr)


def completion(**variables):
    command = [sys.executable, "-c", "from gcbs_cli.cli.app import app; app(prog_name='gcbs')"]
    environment = {"PATH": "/usr/bin:/bin", **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=LONGEST_WAIT).stdout


def test_completion_knows_commands_and_options():
    for words, place, found in (("gcbs hi", "1", "history"), ("gcbs plan --ba", "2", "--batch-size")):
        assert found in completion(_GCBS_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)


MADE = runpy.run_path(str(DOCS / "make_tutorial.py"))
CELLS = json.loads((DOCS / "tutorial.ipynb").read_text(encoding="utf-8"))["cells"]
SOURCES = [(cell["cell_type"] == "code", cell["source"]) for cell in CELLS]


def test_notebook_and_page_hold_the_script_and_what_it_printed():
    printed = ["".join(output["text"] for output in cell.get("outputs", ())) for cell in CELLS]
    assert MADE["cells"]((DOCS / "tutorial.py").read_text(encoding="utf-8")) == SOURCES
    assert MADE["page"](SOURCES, printed) == (DOCS / "tutorial.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_notebook_trains_an_encoder_on_random_and_on_planned_batches():
    for module in ("sentence_transformers", "accelerate", "datasets"):
        pytest.importorskip(module)
    one_seed = [(code, text.replace("seeds = [0, 1]", "seeds = [0]")) for code, text in SOURCES]
    assert one_seed != SOURCES
    printed = "".join(MADE["run"](one_seed))
    found = {name: float(score) for name, score in re.findall(r"(untrained|random|planned): ([\d.]+)", printed)}
    assert found.keys() == {"untrained", "random", "planned"}
    assert min(found["random"], found["planned"]) > found["untrained"] + 10
