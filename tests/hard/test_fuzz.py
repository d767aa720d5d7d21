"""Every reader, on thousands of files that no reader should trust, in processes with a limit on memory.

A try that crashes, hangs, or ends in anything but a BadInput of one line or a right result fails, and its file is kept.
"""

import os
import resource
import signal
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path

import pytest
from fuzz_inputs import WAYS, input_of
from fuzz_targets import TARGETS, attempt
from reading_commands import check_command

from gcbs_cli.cli.app import COMMANDS

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it has threads, and forks
TRIES_A_PROCESS = 400
MEMORY_BYTES = 3 * 2**30
"""Beside what importing torch and pyarrow has mapped."""
SECONDS_A_TRY = 60
PLANNED = ("npy", "parquet", "safetensors", "shards")
"""What `gcbs plan` reads as embeddings."""
EVERY_NTH_BY_COMMAND = 350
"""A command takes a hundred times as long as a reader."""
MUST_FIT_OTHER_FILES = ("permutation", "report", "values", "applied", "texts")
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where files are made: on a disk, waiting for it would be most of the time."""


@pytest.fixture(scope="module", autouse=True)
def _all_commands_imported():
    for name in COMMANDS:  # once, before the forks
        import_module(f"gcbs_cli.cli.{name}")


@pytest.mark.parametrize("target", TARGETS)
def test_files_that_are_made_lying_or_damaged_are_read_or_refused(target, tmp_path, seeds):
    failures, outcomes = [], Counter()
    for way in WAYS:
        tries = list(seeds(50))
        for first in range(0, len(tries), TRIES_A_PROCESS):
            for seed, outcome in in_processes(target, way, tries[first : first + TRIES_A_PROCESS]):
                outcomes[outcome] += outcome in ("read", "refused")
                if outcome not in ("read", "refused"):
                    kept = tmp_path / f"{target}-{way}-{seed}".replace(" ", "-")
                    kept.write_bytes(input_of(target, way, seed))
                    failures.append(f"{kept}: {outcome}")
        if way == "whole" and len(tries) >= 50 and not target.startswith(MUST_FIT_OTHER_FILES):
            # Fuzzing that reaches nothing but the first check says nothing.
            assert outcomes["read"]
            assert outcomes["refused"]
    print(f"{target}: {dict(outcomes)}")
    assert not failures, "\n".join(failures)


def in_processes(target, way, seeds):
    """Each seed with its outcome, `read`, `refused` or what went wrong; after a crash another process goes on."""
    outcomes = []
    while len(outcomes) < len(seeds):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            run_tries(target, way, seeds[len(outcomes) :], writer)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as lines:
            outcomes += lines.read().splitlines()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != 0:
            outcomes.append(f"the process ended with {status}")
    return list(zip(seeds, outcomes, strict=True))


class TooLongError(BaseException):
    """A try that did not end."""


def run_tries(target, way, seeds, writer):
    def stop(number, frame):
        raise TooLongError(f"no end after {SECONDS_A_TRY} s")

    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_BYTES, mapped + MEMORY_BYTES))
    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        for seed in seeds:
            signal.alarm(SECONDS_A_TRY)
            try:
                data = input_of(target, way, seed)
                outcome = attempt(target, data, Path(folder))
                if seed % EVERY_NTH_BY_COMMAND == 0:
                    code = check_command(target, TARGETS[target][0], data, folder)
                    assert (outcome, code) != ("refused", 0) or not target.startswith(PLANNED), "taken by plan"
            except BaseException as error:  # whatever a reader lets through is what is looked for
                outcome = f"{type(error).__name__}: {error}".replace("\n", " ")
            signal.alarm(0)
            os.write(writer, f"{outcome}\n".encode(errors="replace"))
