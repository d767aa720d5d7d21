"""Every command, and the Python API, called with random options and values on small data.

The options and their types are those of the settings, so that a new one is tried without anyone's asking. A call must
end with exit code 0 and a permutation that is one, or with one line and no new file; in Python with a result or a
BadInput of one line that names no option of the command line. `--tries 1 --first-seed 1234` makes one call again.
"""

import inspect
import json
import os
import random
import shutil
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import gcbs_cli as gcbs
from gcbs_cli.cli.app import app
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.settings.model import leaves
from gcbs_cli.settings.others import model_of
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system.errors import GcbsError

ROWS = 97
COMMANDS = {
    "plan": "x.npy y.npy",
    "report": "x.npy y.npy -p plan.npy",
    "compare": "x.npy y.npy",
    "mine": "x.npy y.npy",
    "check": "x.npy y.npy -p plan.npy",
    "apply": "data.jsonl -p plan.npy",
    "doctor": "",
    "config": "",
}
"""With the words that each needs; of embed, demo and history other tests try the few options that they have."""
CALLS = {
    "gcbs.plan": (gcbs.plan, PlanSettings),
    "gcbs.report_all": (gcbs.report_all, ReportSettings),
    "gcbs.mine": (gcbs.mine, MineSettings),
}
FILES = "ids.txt labels.txt grades.txt texts.txt texts.parquet pairs.parquet x.npy plan.npy none.txt data.jsonl ."
VALUES = {
    "device": "cpu auto cuda:9",
    "rank_window": "0:4 3:5 90:10 1:200 0:0",
    "max_memory": "1G 200M 10M 0 64K",
    "partitions": "1 2 3 5 auto 97",
    "methods": "rcm,random metis+refine,train words clusters,neighbours knn-groups rcm,rcm x",
    "budget": "1 2",
    "output": "out.npy out.parquet out.txt out.json out.csv out.jsonl out -",
    "html": "page.html .",
    "perm": "plan.npy x.npy -",
    "x_text": "x y none",
    "y_text": "x y none",
}
"""What is tried of options that are texts; of the others files."""
COLUMNS = "x y id none"
FITTING = {int: "1 2 3 4 8 16", float: "0.05 0.1 0.2 0.5 0.9 0.95 1.05"}
HOSTILE = {
    int: "0 48 96 97 98 200 -1 1000000 100000000000000000000 1.5",
    float: "0 1 2 16 -0.5 1e-9 nan inf -inf 1e999 x",
}
OBJECTS = [None, True, "8", b"8", [], {}, (2,), np.array([3]), np.nan, object()]
LEFT_OUT = ("engine", "address")
"""Options of Ray, which has tests of its own."""


def value_of(leaf, draw):
    """What stands after an option on the command line: mostly something that may fit."""
    if leaf.choices:
        return draw.choice([*leaf.choices * 4, "none-such"])
    if leaf.kind in FITTING:
        return draw.choice(draw.choice([FITTING, FITTING, FITTING, HOSTILE])[leaf.kind].split())
    return draw.choice(VALUES.get(leaf.name, COLUMNS if leaf.name.endswith("_column") else FILES).split())


def chosen(model, draw):
    """One to six of the options."""
    options = [leaf for leaf in leaves(model) if not leaf.argument and leaf.name not in LEFT_OUT]
    return draw.sample(options, min(len(options), draw.choice([1, 1, 2, 2, 3, 4, 6])))


def by_command(name, draw):
    """The words of a call, how it ended, and what is wrong with that."""
    words = [name, *COMMANDS[name].split()]
    model = model_of(name)
    if any(leaf.short == "-k" for leaf in leaves(model)) and draw.random() < 0.8:
        words += ["-k", "8"]
    for leaf in chosen(model, draw):
        words += [draw.choice([leaf.option, leaf.off or leaf.option])] if leaf.kind is bool else [leaf.option]
        words += [] if leaf.kind is bool else [value_of(leaf, draw)]
    before = set(os.listdir())
    ended = CliRunner().invoke(app, words, input="\n".join(map(str, range(ROWS))))
    lines, new = [line for line in ended.stderr.splitlines() if line.strip()], set(os.listdir()) - before
    said, wrong = " ".join(words), ""
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        wrong = "".join(traceback.format_exception(ended.exception))
    elif ended.exit_code not in (0, 2, *[1] * (name == "check")):
        wrong = f"exit code {ended.exit_code}: {ended.stderr}"
    elif ended.exit_code == 2 and (new or sum(line.startswith("gcbs: ") for line in lines) != 1):
        wrong = f"left {new}: {ended.stderr}"
    elif "perm.npy" in new and not is_permutation(np.load("perm.npy")):
        wrong = "perm.npy is no permutation"
    return said, f"{name}: exit code {ended.exit_code}", wrong


def by_call(name, draw):
    """The same of a call in Python, with numbers of several types, and now and then with an object of any."""
    function, model = CALLS[name]
    given = {}
    for leaf in chosen(model, draw):
        text = value_of(leaf, draw)
        kinds = [str]
        if leaf.kind in FITTING and text in FITTING[leaf.kind].split():
            kinds += [leaf.kind, np.float32 if leaf.kind is float else np.int64]
        given[leaf.name] = draw.choice(OBJECTS) if draw.random() < 0.1 else draw.choice(kinds)(text)
    known = {"groups": np.arange(ROWS) // 3, "positives": [None, 1, "a"] * 32 + [0.5], "labels": [True] * 96 + [False]}
    taken = [key for key in known if key in inspect.signature(function).parameters]
    given |= {key: known[key] for key in taken if draw.random() < 0.2}
    wrong, end = "", "result"
    try:
        result = function(np.load("x.npy"), np.load("y.npy"), **given)
        if name == "gcbs.plan" and not is_permutation(result.perm):
            wrong = "no permutation"
    except GcbsError as error:
        end = "refused"
        wrong = "" if len(str(error).splitlines()) == 1 else str(error)
    except Exception as error:
        end, wrong = type(error).__name__, "".join(traceback.format_exception(error))
    return f"{name}({given})", f"{name}: {end}", wrong


def is_permutation(perm):
    """Whether it holds each row once."""
    return bool(np.array_equal(np.sort(perm), np.arange(ROWS)))


def make_files():
    """Pairs with some equal rows, an order, and a file of each kind that options name."""
    for path in Path().iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    draws = np.random.default_rng(0)
    x = draws.normal(size=(ROWS, 6)).astype(np.float32)
    y = (x + 0.3 * draws.normal(size=x.shape)).astype(np.float32)
    x[5], y[20:24] = x[9], y[20]
    for name, array in (("x", x), ("y", y), ("plan", draws.permutation(ROWS))):
        np.save(f"{name}.npy", array)
    rows = range(ROWS)
    lines = {
        "ids": (i // 3 for i in rows),
        "labels": (int(i % 4 > 0) for i in rows),
        "grades": (i % 10 / 9 for i in rows),
        "texts": (f"word{i % 7} other{i % 5} thing" for i in rows),
    }
    for name, values in lines.items():
        Path(f"{name}.txt").write_text("".join(f"{value}\n" for value in values))
    pq.write_table(pa.table({"x": [f"q {i}" for i in rows], "y": [f"a {i}" for i in rows]}), "texts.parquet")
    pq.write_table(pa.table({"x": list(x), "y": list(y), "id": list(rows)}), "pairs.parquet")
    Path("data.jsonl").write_text("".join(json.dumps({"row": i}) + "\n" for i in rows))


@pytest.mark.parametrize("name", [*COMMANDS, *CALLS])
def test_random_options_give_a_result_or_one_line(name, place, seeds):
    ends, failures = Counter(), []
    for seed in seeds(100):
        make_files()
        draw = random.Random(f"{name} {seed}")
        call, end, wrong = (by_call if name in CALLS else by_command)(name, draw)
        ends[end] += 1
        if wrong:
            failures.append(f"{seed}: {call}\n{wrong}")
    print(dict(ends))
    assert not failures, "\n".join(failures)
