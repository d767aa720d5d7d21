"""Tries every reader on files that no reader should trust, and counts how each try ends.

    python benchmarks/fuzz.py --tries 12000              made files, by kind and way
    python benchmarks/fuzz.py --coverage npy --seconds 300  guided by coverage, with atheris

Every try runs in a process that may take so much memory and no more; a try that crashes, hangs, or ends in anything but
a BadInput of one line or a right result is written to --failed and makes the exit code 1.
"""

import argparse
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from types import FrameType

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fuzz"))


def _watched() -> AbstractContextManager[None]:
    """With --coverage, what is imported in it tells atheris which of its lines run."""
    if "--coverage" not in sys.argv:
        return nullcontext()
    import atheris

    watched: AbstractContextManager[None] = atheris.instrument_imports(include=["gcbs_cli"])
    return watched


with _watched():
    from fuzz_inputs import WAYS
    from fuzz_targets import TARGETS, attempt, command_for, input_of

    from gcbs_cli.cli.app import COMMANDS

TRIES_A_PROCESS = 400
MEMORY_BYTES = 3 * 2**30
"""Beside what importing torch and pyarrow has mapped."""
SECONDS_A_TRY = 60
EVERY_NTH_BY_COMMAND = 350
"""A command takes a hundred times as long as a reader."""
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files are made: on a disk, waiting for it would be most of the time."""


class TooLong(BaseException):
    """A try that did not end."""


def main() -> int:
    """Parse, try, count. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; other seeds, other files")
    parser.add_argument("--target", action="append", choices=TARGETS)
    parser.add_argument("--failed", type=Path, default=Path("fuzz-failed"))
    parser.add_argument("--coverage", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=300, help="for --coverage")
    asked = parser.parse_args()
    if asked.coverage:
        return guided(asked.coverage, asked.seconds, asked.failed)
    return counted(asked.target or list(TARGETS), asked.tries, asked.seed, asked.failed.resolve())


def counted(targets: list[str], tries: int, seed: int, failed: Path) -> int:
    """Try files of every kind and way, in forked processes; print the counts."""
    jobs = [(target, way) for target in targets for way in WAYS]
    each = -(-tries // len(jobs))
    for name in COMMANDS:  # once, before the forks
        import_module(f"gcbs_cli.cli.{name}")
    outcomes: Counter[tuple[str, str]] = Counter()
    by_way: Counter[tuple[str, str]] = Counter()
    slowest, peak = 0.0, 0
    began = time.monotonic()
    for target, way in jobs:
        for first in range(seed, seed + each, TRIES_A_PROCESS):
            seeds = range(first, min(first + TRIES_A_PROCESS, seed + each))
            for outcome, seconds, memory in _in_a_process(target, way, seeds, failed):
                outcomes[target, outcome] += 1
                by_way[way, outcome] += 1
                slowest, peak = max(slowest, seconds), max(peak, memory)
    for title, counts in (("reader", outcomes), ("way", by_way)):
        print(f"\n{title:24}{'tried':>8}{'refused':>9}{'read':>7}{'failed':>8}")
        for name in dict.fromkeys(name for name, _ in counts):
            refused, read, wrong = (counts[name, outcome] for outcome in ("refused", "read", "failed"))
            print(f"{name:24}{refused + read + wrong:8}{refused:9}{read:7}{wrong:8}")
    wrong = sum(count for (_, outcome), count in outcomes.items() if outcome == "failed")
    print(
        f"\n{sum(outcomes.values()):,} tries in {time.monotonic() - began:.0f} s, {wrong} failed; "
        f"slowest {slowest:.2f} s, most memory beyond the start {peak / 2**20:.0f} MiB"
    )
    return 1 if wrong else 0


def _in_a_process(target: str, way: str, seeds: range, failed: Path) -> list[tuple[str, float, int]]:
    """(outcome, seconds, bytes of memory beyond the start) of each seed; a crash counts as a failure of its seed."""
    found: list[tuple[str, float, int]] = []
    rest = list(seeds)
    while rest:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _run_tries(target, way, rest, failed, writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            results = [line.split() for line in lines]
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        found += [(outcome, float(seconds), int(memory)) for outcome, seconds, memory in results]
        rest = rest[len(results) :]
        if rest and status != 0:
            _keep(failed, target, way, rest[0], f"the process ended with {status}")
            found.append(("failed", 0.0, 0))
            rest = rest[1:]
    return found


def _run_tries(target: str, way: str, seeds: list[int], failed: Path, writer: int) -> None:
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_BYTES, mapped + MEMORY_BYTES))
    signal.signal(signal.SIGALRM, _too_long)
    os.environ["GCBS_TRACEBACK"] = "1"
    started = _peak()
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        for seed in seeds:
            signal.alarm(SECONDS_A_TRY)
            began = time.monotonic()
            try:
                data = input_of(target, way, seed)
                outcome = attempt(target, data, Path(folder))
                if seed % EVERY_NTH_BY_COMMAND == 0:
                    _by_command(target, Path(folder), outcome)
            except BaseException as error:  # whatever a reader lets through is what is looked for
                outcome = "failed"
                _keep(failed, target, way, seed, f"{type(error).__name__}: {error}")
            signal.alarm(0)
            os.write(writer, f"{outcome} {time.monotonic() - began:.3f} {_peak() - started}\n".encode())


def _by_command(target: str, folder: Path, outcome: str) -> None:
    """The same file through the command line: exit code 0 or 2, one line, no traceback, no output."""
    from typer.testing import CliRunner

    from gcbs_cli.cli.app import app

    os.chdir(folder)
    for name in ("x.npy", "y.npy"):
        np.save(name, np.random.default_rng(0).normal(size=(300, 4)))
    np.save("perm.npy", np.arange(300))
    path = f"input{TARGETS[target][0]}"
    if target == "manifest":
        shutil.copy(path, "perm.npy.manifest.json")
    command = [*command_for(target, path), "-q"]
    ended = CliRunner().invoke(app, command)
    lines, outputs = ended.stderr.splitlines(), list(folder.glob("out.*"))
    allowed = (0, 1, 2) if command[0] == "check" else (0, 2)
    if ended.exit_code not in allowed or "Traceback" in ended.output:
        raise AssertionError(f"{command[0]}: exit code {ended.exit_code}: {ended.output[:300]!r} {ended.exception!r}")
    if ended.exit_code == 2 and (len(lines) > 1 + ("--config" in command) or ended.stdout or outputs):
        raise AssertionError(f"{command[0]}: {lines!r}, stdout {ended.stdout[:100]!r}, output {outputs}")
    if outcome == "refused" and ended.exit_code == 0 and "-k" in command:
        raise AssertionError("plan took what the reader refuses")
    for left in [*outputs, *folder.glob("perm.npy*")]:
        left.unlink()


def _keep(failed: Path, target: str, way: str, seed: int, reason: str) -> None:
    failed.mkdir(exist_ok=True)
    name = f"{target}-{way}-{seed}".replace(" ", "-")
    (failed / name).write_bytes(input_of(target, way, seed))
    print(f"FAILED {name}: {reason}", flush=True)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TooLong(f"no end after {SECONDS_A_TRY} s")


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def guided(target: str, seconds: int, failed: Path) -> int:
    """Let atheris (libFuzzer) look for bytes that reach new lines of the reader; needs `pip install atheris`.

    A file that the reader does not take well ends it, and is left in `failed`.
    """
    import atheris

    with _watched():  # what readers import when they need it
        import gcbs_cli.cli.app
        import gcbs_cli.comparison.history
        import gcbs_cli.data.npy
        import gcbs_cli.data.row_values
        import gcbs_cli.data.tables
        import gcbs_cli.plan_file.permutation  # noqa: F401
    folder = Path(tempfile.mkdtemp())
    seeds = folder / "seeds"
    seeds.mkdir()
    failed.mkdir(exist_ok=True)
    for way in WAYS:
        for seed in range(20):
            (seeds / f"{way}-{seed}".replace(" ", "-")).write_bytes(input_of(target, way, seed))

    def one(data: bytes) -> None:
        attempt(target, data, folder)

    options = [f"-max_total_time={seconds}", f"-timeout={SECONDS_A_TRY}", "-max_len=20000", "-print_final_stats=1"]
    options += [f"-artifact_prefix={failed}/{target}-guided-", f"-rss_limit_mb={MEMORY_BYTES >> 20}"]
    atheris.Setup([sys.argv[0], str(seeds), *options], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
