"""The tutorial's notebook and page hold its script and what it printed, and the notebook runs."""

import json
import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
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
