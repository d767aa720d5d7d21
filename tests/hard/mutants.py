"""Changes the code in one place at a time and counts the changes that the tests notice.

    python tests/hard/mutants.py --count 200 --lines mutants.jsonl          each folder
    python tests/hard/mutants.py --folder orders --lines mutants.jsonl      one folder
    python tests/hard/mutants.py --lines mutants.jsonl --count 0            the table of what was tried

A mutant swaps an operator, shifts a number, turns a condition round, or leaves out a call, inside of a function. It is
tried in a copy of the files that git tracks, on the tests of its folder that reach its line (all, where none is seen
to), fastest first. Tests are imported once and each try is a fork, so that a try takes no longer than its tests; numba
compiles again what has changed. Each mutant is a line of the JSON file, and a run that was stopped goes on after it.
"""

import argparse
import ast
import gc
import importlib
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import numba
import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {name: [f"gcbs_cli/{name}"] for name in ("data", "products", "graph", "orders", "plan_file")}
FOLDERS["reports"] = [f"gcbs_cli/reports/{name}.py" for name in ("losses", "in_batch", "basis")]
TESTS = {name: [name] for name in FOLDERS}
OF_RESULTS = [
    "products/test_torch_device.py",
    "orders/test_planners_same_plans.py",
    "reports/test_second_reading.py",
    "test_what_must_stay.py",
]
TESTS["orders"] += ["products/test_torch_device.py"]
TESTS["graph"] += [*OF_RESULTS, "orders/test_planners.py", "orders/test_planners_make_plan.py"]
TESTS["graph"] += ["products/test_passes.py"]
TESTS["products"] += OF_RESULTS[1:]
TESTS["reports"] = [f"reports/test_{name}.py" for name in ("second_reading", "reports_figures", "reports_sampled")]
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
LONGEST_TEST = 15
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
        case ast.Expr(ast.Call(ast.Attribute(ast.Call(ast.Name("super"))))):
            yield node, ast.Expr(ast.Name("__class__"))  # or the function's closure would be another
        case ast.Expr(ast.Call()):
            yield node, ast.Pass()
        case ast.Break():
            yield node, ast.Continue()
        case ast.Continue():
            yield node, ast.Break()


def nodes(node: ast.AST, inside: bool = False) -> Iterator[ast.AST]:
    """The nodes of functions that decide a result: without types, defaults, texts and the words of errors."""
    if inside:
        yield node
    function = isinstance(node, ast.FunctionDef)
    for name, value in ast.iter_fields(node):
        if name == "annotation" or (function and name != "body"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.Raise | ast.JoinedStr):
                yield from nodes(child, inside or function)


def functions(code: CodeType) -> dict[str, list[CodeType]]:
    """The functions of a module and of its classes by name, in the order of their lines."""
    found: dict[str, list[CodeType]] = defaultdict(list)
    for inner in code.co_consts:
        if isinstance(inner, CodeType) and inner.co_flags & CO_NEWLOCALS:
            found[inner.co_qualname].append(inner)
        elif isinstance(inner, CodeType):
            for name, codes in functions(inner).items():
                found[name] += codes
    return found


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


class Tries:
    """A pytest plug-in: in place of the loop over tests, measures them and tries one mutant after the other."""

    def __init__(self, copy: Path, chosen: list[Mutant], tell: Callable[[str], None], seconds: float) -> None:
        self.copy, self.chosen, self.tell, self.most_seconds = copy, chosen, tell, seconds
        self.seconds: dict[str, float] = {}
        self.reached: dict[str, set[tuple[str, int]]] = defaultdict(set)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Before it pytest has imported all tests, and with them what they test."""
        measured = forked(lambda: self._measured(session.items), 3600.0)
        assert measured, "the tests could not be measured"
        self.seconds = {test: found["seconds"] for test, found in measured.items() if not found["failed"]}
        left_out = [test for test, found in measured.items() if found["failed"]]
        print(f"{sum(self.seconds.values()):.0f} s of tests; without {left_out}", file=sys.stderr)
        for test, found in measured.items():
            self.reached[test] = {(name, line) for name, line in found["lines"]}
        items = {item.nodeid: item for item in session.items}
        until = time.monotonic() + self.most_seconds
        for mutant in self.chosen:
            if time.monotonic() > until:
                break
            began = time.monotonic()
            end, test = self._try(mutant, [items[test] for test in self._tests_of(mutant)])
            line = {**vars(mutant), "end": end, "test": test, "seconds": round(time.monotonic() - began, 1)}
            self.tell(json.dumps(line))
        return True

    def _tests_of(self, mutant: Mutant) -> list[str]:
        """The tests that reach its line, else all; the fastest first."""
        reaching = [test for test in self.seconds if (mutant.file, mutant.line) in self.reached[test]]
        return sorted(reaching or self.seconds, key=lambda test: self.seconds[test])

    def _try(self, mutant: Mutant, items: list[pytest.Item]) -> tuple[str, str]:
        """How it ended (killed, survived, time), and the test that failed."""
        path = self.copy / mutant.file
        source, times = path.read_bytes(), path.stat()
        changed = source[: mutant.begin] + mutant.now.encode() + source[mutant.end :]

        on_disk = b"@compiled" not in source  # for commands that tests launch; numba would compile the whole file again

        def run() -> str:
            if not on_disk:  # the name of a loop's cached code does not tell of a changed constant
                numba.config.CACHE_DIR = tempfile.mkdtemp(dir=self.copy)
            importlib.import_module(mutant.file.removesuffix(".py").replace("/", "."))
            replace_functions(str(path), source, changed)
            for item, following in zip(items, [*items[1:], None], strict=True):
                if failed(item, following):
                    return item.nodeid
            return ""

        if on_disk:
            path.write_bytes(changed)
        try:
            test = forked(run, LEAST_SECONDS + 3 * sum(self.seconds[item.nodeid] for item in items))
        finally:
            if on_disk:
                path.write_bytes(source)
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return ("time" if test is None else "killed" if test else "survived"), test or ""

    def _measured(self, items: list[pytest.Item]) -> dict[str, Any]:
        """Of each test: how long it takes, whether it fails, and which lines it reaches."""
        inside, found = str(self.copy) + "/", {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            lines: set[tuple[str, int]] = set()
            began = time.monotonic()
            with traced(inside + "gcbs_cli", lines):
                bad = failed(item, following)
            reached = [(name.removeprefix(inside), line) for name, line in lines]
            found[item.nodeid] = {"seconds": time.monotonic() - began, "failed": bad, "lines": reached}
        return found


def failed(item: pytest.Item, following: pytest.Item | None) -> bool:
    """Whether a test fails."""
    from _pytest.runner import runtestprotocol

    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


@contextmanager
def traced(inside: str, lines: set[tuple[str, int]]) -> Iterator[None]:
    """Write down the lines that run, and those of compiled loops that are called; stop what takes too long."""

    def each_line(frame: FrameType, event: str, argument: object) -> Any:
        lines.add((frame.f_code.co_filename, frame.f_lineno))
        return each_line

    def compiled(loop: Any) -> None:
        lines.update((loop.__code__.co_filename, line) for *_, line in loop.__code__.co_lines() if line)
        for name in loop.__code__.co_names:
            if callee := getattr(loop.__globals__.get(name), "_loop", None):
                compiled(callee)

    def each_call(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(inside):
            return None
        if frame.f_code.co_qualname == "_Compiled.__call__":
            compiled(frame.f_locals["self"]._loop)
        return each_line

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST_TEST)
    threading.settrace(each_call)
    sys.settrace(each_call)
    try:
        yield
    finally:
        signal.alarm(0)
        sys.settrace(None)


def replace_functions(path: str, source: bytes, changed: bytes) -> None:
    """Give the functions of an imported file the code of the changed one."""
    old, new = (functions(compile(text, path, "exec")) for text in (source, changed))
    now = {(name, code.co_firstlineno): other for name in old for code, other in zip(old[name], new[name], strict=True)}
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename == path:
            key = function.__code__.co_qualname, function.__code__.co_firstlineno
            function.__code__ = now.get(key, function.__code__)


def forked(work: Callable[[], Any], limit: float) -> Any:
    """What a function gives in a process of its own, as JSON has it; None where it takes longer than the limit."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        if not (child := os.fork()):
            os.setsid()
            try:
                told.write_text(json.dumps(work()))
            except BaseException as error:
                told.write_text(json.dumps({"error": repr(error)}))
            finally:
                os._exit(0)
        until = time.monotonic() + limit
        while not os.waitpid(child, os.WNOHANG)[0]:
            if time.monotonic() > until:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None
            time.sleep(0.02)
        found = json.loads(told.read_text()) if told.exists() else "the process died"
        if isinstance(found, dict) and "error" in found:
            raise RuntimeError(found["error"])
        return found


def try_folder(folder: str, scratch: Path, chosen: list[Mutant], tell: Callable[[str], None], seconds: float) -> None:
    """Try mutants of a folder in a process of their own, which imports the copy."""
    copy = tracked_files(scratch / folder)
    if child := os.fork():
        os.waitpid(child, 0)
        return
    os.chdir(copy)
    os.environ |= {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(scratch / "numba")}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(copy))
    paths = [str(copy / "tests" / name) for name in TESTS[folder]]
    words = ["-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist"]
    pytest.main([*words, *paths], plugins=[Tries(copy, chosen, tell, seconds)])
    os._exit(0)


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
    """Try what is not in the file yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", action="append", choices=FOLDERS)
    parser.add_argument("--count", type=int, default=200, help="mutants a folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lines", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--seconds", type=float, default=1e9, help="for the mutants of a folder")
    parser.add_argument("--again", action="store_true", help="try the survivors again, on the tests as they are now")
    asked = parser.parse_args()
    lines = read_lines(asked.lines)
    if asked.again:
        lines = [line for line in lines if line["end"] != "survived" or "equivalent" in line]
        asked.lines.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = {(line["file"], line["line"], line["column"], line["now"]) for line in lines}
    with tempfile.TemporaryDirectory(prefix="gcbs-mutants-") as scratch, asked.lines.open("a") as out:
        for folder in asked.folder or FOLDERS:
            drawn = mutants(folder)
            random.Random(asked.seed).shuffle(drawn)
            left = [mutant for mutant in drawn[: asked.count] if mutant.key not in done]
            if left:
                tell = partial(print, file=out, flush=True)
                try_folder(folder, Path(scratch), left, tell, asked.seconds)
    print(table(read_lines(asked.lines)))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """What was tried so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def tracked_files(folder: Path) -> Path:
    """A copy of the files that git tracks, with their times."""
    for name in subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")[:-1]:
        target = folder / "copy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder / "copy"


if __name__ == "__main__":
    main()
