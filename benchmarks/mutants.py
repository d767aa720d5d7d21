"""Changes the code in one place at a time and counts the changes that the tests notice.

    python benchmarks/mutants.py --count 200 --lines mutants.jsonl          each folder in turn
    python benchmarks/mutants.py --folder orders --lines mutants.jsonl      one folder
    python benchmarks/mutants.py --lines mutants.jsonl --count 0            the table of what was tried

A mutant swaps an operator, shifts a number, turns a condition round, or leaves out a call. It is tried in a copy of the
files that git tracks, on the tests of its folder that reach its line (all, where none is seen to), fastest first.
Each is a line of the JSON file, and a run that was stopped goes on after the last one.
"""

import argparse
import ast
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numba  # these are loaded once: each try is a fork of this process
import pyarrow.parquet  # noqa: F401
import pytest
import scipy.sparse  # noqa: F401
import torch  # noqa: F401

ROOT = Path(__file__).parents[1]
FOLDERS = {name: [f"gcbs_cli/{name}"] for name in ("data", "products", "graph", "orders", "plan_file")}
FOLDERS["reports"] = [f"gcbs_cli/reports/{name}.py" for name in ("losses", "bsc", "in_batch", "basis", "coordinates")]
TESTS = {name: [name] for name in FOLDERS}
TESTS["graph"] += [f"orders/test_planners_{name}.py" for name in ("make_plan", "top_graph", "metis")]
TESTS["graph"] += ["products/test_scan.py", "reports/test_reports_figures.py"]
SWAPS: dict[type[ast.AST], type[Any]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
LEAST_SECONDS = 30.0
"""A mutant that runs for longer than this and thrice the tests' own time counts as killed."""
LONGEST_TEST = 40
"""Seconds of a test; those that take longer are left out."""


@dataclass
class Mutant:
    """One change of one file."""

    folder: str
    file: str
    line: int
    column: int
    was: str
    now: str
    begin: int = field(repr=False)
    end: int = field(repr=False)

    @property
    def key(self) -> tuple[str, int, int, str]:
        """What tells it from the others."""
        return self.file, self.line, self.column, self.now


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """What to replace with what, for one node of the syntax tree."""
    match node:
        case ast.Compare(left, [op], rest) if type(op) in SWAPS:
            yield node, ast.Compare(left, [SWAPS[type(op)]()], rest)
        case ast.BinOp(left, op, right) if type(op) in SWAPS:
            yield node, ast.BinOp(left, SWAPS[type(op)](), right)
        case ast.BoolOp(op, values):
            yield node, ast.BoolOp(SWAPS[type(op)](), values)
        case ast.AugAssign(target, op, value) if type(op) in SWAPS:
            yield node, ast.AugAssign(target, SWAPS[type(op)](), value)
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield node, operand
        case ast.Constant(bool() as value):
            yield node, ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield node, ast.Constant(value + 1)
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            yield test, ast.UnaryOp(ast.Not(), test)
        case ast.Expr(ast.Call()):
            yield node, ast.Pass()
        case ast.Break():
            yield node, ast.Continue()
        case ast.Continue():
            yield node, ast.Break()


def nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that decide a result: without types, decorators, texts and the words of errors."""
    skipped: list[Any] = [ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom]
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "slice") and not isinstance(node, ast.Subscript):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, tuple(skipped)):
                yield from nodes(child)


def mutants(folder: str) -> list[Mutant]:
    """Every mutant of a folder, in the order of the lines."""
    found = []
    for place in FOLDERS[folder]:
        for path in sorted((ROOT / place).glob("*.py")) if (ROOT / place).is_dir() else [ROOT / place]:
            text = path.read_bytes()
            starts = [0, *(i + 1 for i, byte in enumerate(text) if byte == ord("\n"))]
            for node in nodes(ast.parse(text)):
                for old, new in changes(node):
                    here: Any = old
                    begin = starts[here.lineno - 1] + here.col_offset
                    end = starts[here.end_lineno - 1] + here.end_col_offset
                    now = ast.unparse(ast.fix_missing_locations(new))
                    now = f"({now})" if isinstance(new, ast.expr) else now
                    was = text[begin:end].decode()
                    name = str(path.relative_to(ROOT))
                    found.append(Mutant(folder, name, here.lineno, here.col_offset, was, now, begin, end))
    return found


class Tests:
    """The tests of one folder: how long each takes and which lines it reaches."""

    def __init__(self, folder: str, copy: Path) -> None:
        self.paths, self.copy = [str(copy / "tests" / name) for name in TESTS[folder]], copy
        self.seconds: dict[str, float] = {}
        self.reached: dict[str, set[tuple[str, int]]] = defaultdict(set)

    def measure(self) -> None:
        """Run them as they are, to compile and to see which lines each reaches."""
        _, report = self._forked(None, 3600.0)
        self.seconds = {test: seconds for test, seconds in report["seconds"].items() if test not in report["failed"]}
        for test, lines in report["reached"].items():
            self.reached[test] = {(name, line) for name, line in lines}
        print(self.paths, f"{sum(self.seconds.values()):.0f} s of tests, without", report["failed"], file=sys.stderr)

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that reach its line, else all; the fastest first."""
        reaching = [test for test in self.seconds if (mutant.file, mutant.line) in self.reached[test]]
        return sorted(reaching or self.seconds, key=lambda test: self.seconds[test])

    def notice(self, mutant: Mutant) -> tuple[str, str]:
        """How it ended (killed, survived, time), and the test that failed."""
        tests = self.of(mutant)
        path = self.copy / mutant.file
        source, times = path.read_bytes(), path.stat()
        path.write_bytes(source[: mutant.begin] + mutant.now.encode() + source[mutant.end :])
        try:
            limit = LEAST_SECONDS + 3 * sum(self.seconds[test] for test in tests)
            status, report = self._forked(tests, limit)
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        if status is None:
            return "time", ""
        return ("killed" if status else "survived"), "".join(report.get("failed", [])[:1])

    def _forked(self, chosen: list[str] | None, limit: float) -> tuple[int | None, dict[str, Any]]:
        """Exit code (None: it ran too long) and what the tests told, of a run in a process and a cache of its own."""
        with tempfile.TemporaryDirectory(dir=self.copy.parent) as folder:
            told, cache = Path(folder, "told.json"), Path(folder, "numba")
            kept = self.copy.parent / "numba"
            if chosen is None:
                cache = kept
            elif kept.exists():
                shutil.copytree(kept, cache)
            if not (child := os.fork()):
                self._run(chosen, told, cache)
            until = time.monotonic() + limit
            while not (ended := os.waitpid(child, os.WNOHANG))[0]:
                if time.monotonic() > until:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    return None, {}
                time.sleep(0.05)
            return os.waitstatus_to_exitcode(ended[1]), json.loads(told.read_text()) if told.exists() else {}

    def _run(self, chosen: list[str] | None, told: Path, cache: Path) -> None:
        """The tests, in the forked process, which ends here."""
        os.setsid()
        silent = os.open(told.with_suffix(".txt"), os.O_WRONLY | os.O_CREAT)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        os.chdir(self.copy)
        os.environ.update(PYTHONPATH=str(self.copy), PYTHONDONTWRITEBYTECODE="1", NUMBA_CACHE_DIR=str(cache))
        config: Any = numba.config
        config.CACHE_DIR = str(cache)
        sys.dont_write_bytecode = True
        sys.path.insert(0, str(self.copy))
        watch = Watch(self.copy, chosen)
        selected = [
            "-m",
            "not slow",
            *(["-x"] if chosen else []),
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            *self.paths,
        ]
        code = int(pytest.main(selected, plugins=[watch]))
        told.write_text(json.dumps({**vars(watch), "chosen": None}, default=str))
        os._exit(code)


class Watch:
    """A pytest plug-in: chooses and orders the tests, and writes down what they did."""

    def __init__(self, copy: Path, chosen: list[str] | None) -> None:
        self.chosen, self.inside = chosen, str(copy) + "/"
        self.seconds: dict[str, float] = defaultdict(float)
        self.reached: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Only those chosen, in that order."""
        if self.chosen is not None:
            place = {test: i for i, test in enumerate(self.chosen)}
            items[:] = sorted((item for item in items if item.nodeid in place), key=lambda item: place[item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Trace one test with its fixtures, when all are measured."""
        lines: set[tuple[str, int]] = set()

        def each_line(frame: FrameType, event: str, argument: object) -> Any:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return each_line

        def compiled(loop: Any) -> None:
            lines.update((loop.__code__.co_filename, line) for *_, line in loop.__code__.co_lines() if line)
            for name in loop.__code__.co_names:
                if callee := getattr(loop.__globals__.get(name), "_loop", None):
                    compiled(callee)

        def each_call(frame: FrameType, event: str, argument: object) -> Any:
            if not frame.f_code.co_filename.startswith(self.inside + "gcbs_cli"):
                return None
            if frame.f_code.co_qualname == "_Compiled.__call__":
                compiled(frame.f_locals["self"]._loop)
            return each_line

        def stop(*_: object) -> None:
            raise TimeoutError

        if self.chosen is None:
            signal.signal(signal.SIGALRM, stop)
            signal.alarm(LONGEST_TEST)
            threading.settrace(each_call)
            sys.settrace(each_call)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            sys.settrace(None)
            self.reached[item.nodeid] = [(name.removeprefix(self.inside), line) for name, line in lines]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """How long it took, and whether it failed."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)


def table(lines: list[dict[str, Any]]) -> str:
    """What came out, a line a folder."""
    rows = ["| folder | mutants | killed | survived, equivalent | survived | share |", "|---|---:|---:|---:|---:|---:|"]
    for folder in FOLDERS:
        ends = [(line.get("equivalent") and "equivalent") or line["end"] for line in lines if line["folder"] == folder]
        killed, same = len(ends) - ends.count("survived") - ends.count("equivalent"), ends.count("equivalent")
        share = f"{killed / max(1, len(ends) - same):.0%}"
        rows.append(f"| {folder} | {len(ends)} | {killed} | {same} | {ends.count('survived')} | {share} |")
    return "\n".join(rows)


def main() -> None:
    """Try what is not in the file yet, folder after folder in turn, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", action="append", choices=FOLDERS)
    parser.add_argument("--count", type=int, default=200, help="mutants a folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--again", action="store_true", help="try the survivors again, on the tests as they are now")
    asked = parser.parse_args()
    lines = [json.loads(line) for line in asked.lines.read_text().splitlines()] if asked.lines.exists() else []
    if asked.again:
        lines = [line for line in lines if line["end"] != "survived" or "equivalent" in line]
        asked.lines.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = {(line["file"], line["line"], line["column"], line["now"]) for line in lines}
    with tempfile.TemporaryDirectory(prefix="gcbs-mutants-") as scratch, asked.lines.open("a") as out:
        copies: dict[str, Tests] = {}
        drawn = {folder: mutants(folder) for folder in asked.folder or FOLDERS}
        for chosen in drawn.values():
            random.Random(asked.seed).shuffle(chosen)
        for turn in range(asked.count):
            for folder, chosen in drawn.items():
                if turn >= len(chosen) or chosen[turn].key in done:
                    continue
                if folder not in copies:
                    copies[folder] = Tests(folder, tracked_files(Path(scratch, folder)))
                    copies[folder].measure()
                began = time.monotonic()
                end, test = copies[folder].notice(chosen[turn])
                line = {**vars(chosen[turn]), "end": end, "test": test, "seconds": round(time.monotonic() - began, 1)}
                lines.append(line)
                print(json.dumps(line), file=out, flush=True)
    print(table(lines))


def tracked_files(folder: Path) -> Path:
    """A copy of the files that git tracks, with their times."""
    for name in subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")[:-1]:
        target = folder / "copy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder / "copy"


if __name__ == "__main__":
    main()
