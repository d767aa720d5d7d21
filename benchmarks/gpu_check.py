"""What `scripts/gpu_check.sh` runs: one step of proving and timing the GPU path, each in a call of a few minutes.

Every step writes gpu-STEP.md and gpu-STEP.json into a folder, again after each of its parts; a part that fails, or for
which there is no GPU, is said and the next one begins. Usage: ``python benchmarks/gpu_check.py STEP OUT``
"""

import argparse
import cProfile
import hashlib
import io
import json
import pstats
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
import torch
from measuring import gpu_seconds, machine, markdown_table, product_rates, random_unit_rows, seconds_of, write_unit_rows

from gcbs_cli.data.grid import BYTES, FINE, make_grid
from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products import torch_device
from gcbs_cli.products.operations import Tile
from gcbs_cli.products.torch_device import GPU_TILE, HELD_AS, TorchBackend, flag_by_torch, pair_flags
from gcbs_cli.settings.plan import PlanSettings

ROOT = Path(__file__).parents[1]
DIM, PER_ROW = 768, 512
ON_GPU = torch.cuda.is_available()
GCBS = [sys.executable, "-m", "gcbs_cli"]
PART_SECONDS = 540.0
"""What a part may take, so that a step ends within ten minutes."""

SAID = 400
"""Characters of an error that are kept of its beginning and of its end."""

Lines = list[list[str]]
"""A table: its header, and its lines."""


class Step:
    """The parts of a step and what came of each, written after each."""

    def __init__(self, number: int, out: Path) -> None:
        self._path, self._parts = out / f"gpu-{number}", list[dict[str, object]]()
        self._title = f"Step {number} on {machine()}"
        self._write()

    def part(self, name: str, work: Callable[[], Lines], otherwise: str, *, anywhere: bool = False) -> None:
        """Do a part; where it fails, say what to try; where it needs a GPU that is not there, that it is skipped."""
        began, table, said = time.perf_counter(), Lines(), "done"
        print(f"--- {name}", flush=True)
        try:
            if anywhere or ON_GPU:
                table = work()
            else:
                said = "skipped: no GPU here"
        except (Exception, SystemExit) as error:  # whatever it is, the next part is tried
            text = str(error) if len(str(error)) < 2 * SAID else f"{str(error)[:SAID]} … {str(error)[-SAID:]}"
            said = f"FAILED: {type(error).__name__}: {text}. Try: {otherwise}"
        self._parts.append({"part": name, "seconds": time.perf_counter() - began, "said": said, "table": table})
        print(markdown_table(table[0], table[1:]) if table else said, flush=True)
        self._write()

    def _write(self) -> None:
        text = f"# {self._title}\n"
        for part in self._parts:
            table = cast(Lines, part["table"])
            text += f"\n## {part['part']}\n\n{part['said']}, {part['seconds']:.1f} s\n"
            text += f"\n{markdown_table(table[0], table[1:])}\n" if table else ""
        self._path.with_suffix(".md").write_text(text)
        self._path.with_suffix(".json").write_text(json.dumps({"title": self._title, "parts": self._parts}, indent=1))


def run(*command: object) -> str:
    """What a command prints, the errors too; raises RuntimeError with its end where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PART_SECONDS, cwd=ROOT
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {done.returncode}: {done.stdout}")
    return done.stdout


@contextmanager
def peak_memory() -> Iterator[list[int]]:
    """The most memory of the GPU in use meanwhile, in MiB, of all processes; looked up twice a second."""
    most, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            used = run("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").split()
            most[0] = max(most[0], int(used[0]))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield most
    finally:
        ended.set()
        watcher.join()


def about_the_machine() -> Lines:
    """Versions, cores, memory, and how long torch and the context take."""
    starts = "import time; t=time.time(); import torch; print(time.time()-t)"
    context = "; t=time.time(); torch.zeros(1, device='cuda'); print(time.time()-t)" if ON_GPU else ""
    seconds = run(sys.executable, "-c", starts + context).split()
    lines = [["what", "seen"], ["machine", machine()], ["import of torch, s", f"{float(seconds[0]):.2f}"]]
    if ON_GPU:
        free, total = torch.cuda.mem_get_info()
        lines += [["CUDA context, s", f"{float(seconds[1]):.2f}"]]
        lines += [["GPU memory, free and all, GiB", f"{free / 2**30:.1f}, {total / 2**30:.1f}"]]
        lines += [["pairs are flagged by", pair_flags("cuda:0").__name__]]
    return lines


def ceilings() -> Lines:
    """Rates of bare products at K = 768, and of copies."""
    lines = [["what", "rate"]]
    lines += [[f"{name} product", f"{rate / 1e12:.0f} T/s"] for name, rate in product_rates(DIM, "cuda:0").items()]
    size = 1 << 30
    here, there = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8, device="cuda")
    pinned, other = here.pin_memory(), torch.empty_like(there)
    for name, work in {
        "copy on the GPU, read and written": lambda: other.copy_(there),
        "pinned memory to the GPU": lambda: there.copy_(pinned, non_blocking=True),
        "pageable memory to the GPU": lambda: there.copy_(here),
    }.items():
        lines.append([name, f"{(1 + ('read' in name)) * size / gpu_seconds(work) / 1e9:.0f} GB/s"])
    return lines


def pytest_gpu() -> Lines:
    """The tests, on the GPU or with torch's CPU device for it."""
    said = run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu")
    return [["tests/gpu", "on"], [said.strip().splitlines()[-1], "the GPU" if ON_GPU else "the CPU"]]


def plan(folder: Path, rows: int, device: str, *options: object) -> tuple[float, str]:
    """Seconds of `gcbs plan` on random rows, made where they are not there, and the hash of the permutation."""
    for seed, name in enumerate("xy"):
        if not (folder / f"{name}{rows}.npy").exists():
            write_unit_rows(folder / f"{name}{rows}.npy", rows, DIM, seed)
    output = folder / "perm.npy"
    command = [*GCBS, "plan", folder / f"x{rows}.npy", folder / f"y{rows}.npy", "-o", output, "--device", device]
    seconds = seconds_of(lambda: run(*command, "-q", "--force", *options))
    return seconds, hashlib.sha256(output.read_bytes()).hexdigest()[:16]


def plan_on_both(folder: Path) -> Lines:
    """20,000 rows: the same permutation on both devices, and twice on the GPU."""
    devices = ["cuda", "cuda", "cpu"] if ON_GPU else ["cpu"]
    found = [(device, *plan(folder, 20_000, device, "--per-row", PER_ROW)) for device in devices]
    if len({digest for _, _, digest in found}) > 1:
        raise RuntimeError(f"the permutations differ: {found}")
    return [["device", "s", "hash"], *([device, f"{seconds:.2f}", digest] for device, seconds, digest in found)]


def sanitizer(folder: Path) -> Lines:
    """compute-sanitizer over a plan of 1,000 rows."""
    plan(folder, 1000, "cuda")
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    command = [*GCBS, "plan", folder / "x1000.npy", folder / "y1000.npy", "-o", folder / "s.npy", "--device", "cuda"]
    said = run(tool, "--tool", "memcheck", *command, "-q", "--force")
    return [["compute-sanitizer"], [said.strip().splitlines()[-1]]]


def strip() -> Lines:
    """8,192 rows against a million columns, tile by tile, by each type and each way to flag."""
    rows, cols, lines = 8192, 1_000_000, [["what", "s", "T/s"]]
    x, y = random_unit_rows(rows, DIM, 0), random_unit_rows(1 << 16, DIM, 1)
    tiles = [Tile(slice(0, rows), slice(a, min(a + GPU_TILE[1], cols))) for a in range(0, cols, GPU_TILE[1])]
    operations = 2.0 * rows * cols * DIM
    for largest in (BYTES, FINE):
        grid = make_grid(x, y, largest)
        wide = np.tile(grid.y, (-(-cols // len(y)), 1))[:cols]
        for held in HELD_AS[grid.x.dtype.name]:
            backend = TorchBackend(["cuda:0"])
            backend._quickest = lambda *_, held=held: held  # type: ignore[method-assign]
            loaded = backend.load(grid.x, wide)

            def multiply(backend: TorchBackend = backend, loaded: torch_device.Sides = loaded) -> None:
                for tile in tiles:
                    backend.product(loaded, tile)

            try:
                seconds = gpu_seconds(multiply)
                lines.append([f"{grid.x.dtype} rows as {held}", f"{seconds:.3f}", f"{operations / seconds / 1e12:.0f}"])
            except (RuntimeError, TypeError) as error:
                lines.append([f"{grid.x.dtype} rows as {held}", "failed", str(error)[:SAID]])
            del loaded, multiply
    tile = Tile(slice(0, GPU_TILE[0]), slice(GPU_TILE[0], 2 * GPU_TILE[0]))
    product = torch.randint(-9999, 9999, GPU_TILE, dtype=torch.int32, device="cuda")
    offsets = tuple(torch.zeros(2, 2 * GPU_TILE[0], dtype=torch.int32, device="cuda"))
    for flag in {flag_by_torch, pair_flags("cuda:0")}:
        seconds = gpu_seconds(lambda flag=flag: flag(product, product, offsets, tile, 9990))  # type: ignore[misc]
        lines.append([f"{flag.__name__}, a tile of {GPU_TILE[0]:,} × {GPU_TILE[1]:,}", f"{seconds:.5f}", "–"])
    flags = flag_by_torch(product, product, offsets, tile, 9990)
    return [*lines, ["nonzero of its flags", f"{gpu_seconds(lambda: torch.nonzero(flags)):.5f}", "–"]]


def scaling(folder: Path, rows: list[int], rounds: int) -> Lines:
    """The table of `benchmarks/scaling.py`, and the GPU's memory at its peak."""
    with peak_memory() as most:
        said = run(
            sys.executable, "benchmarks/scaling.py", "--device", "cuda", "--scratch", folder, "--rounds", rounds,
            "--rows", *rows,
        )  # fmt: skip
    print(said)
    table = [line.strip("| ").split(" | ") for line in said.splitlines() if line.startswith("| ")]
    notes = [line for line in said.splitlines() if line.startswith(("Bare", "Time"))]
    blank = [""] * (len(table[0]) - 1)
    return [table[0], *table[2:], *([note, *blank] for note in notes), [f"GPU memory at most {most[0]:,} MiB", *blank]]


def profile() -> Lines:
    """Where the host's time of one plan of 100,000 rows goes, and the GPU's by kernel."""
    pair = PairedRows(*(random_unit_rows(100_000, DIM, seed) for seed in (0, 1)))
    settings = PlanSettings(per_row=PER_ROW, device="cuda")
    make_plan(pair, settings)
    host, kinds = cProfile.Profile(), [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as device:
        result = make_plan(pair, settings)
    host.runcall(make_plan, pair, settings)
    text = io.StringIO()
    pstats.Stats(host, stream=text).sort_stats("cumulative").print_stats(30)
    print(text.getvalue())
    kernels = sorted(device.key_averages(), key=lambda each: -each.self_device_time_total)[:15]
    lines = [[each.key[:80], str(each.count), f"{each.self_device_time_total / 1e3:.1f}"] for each in kernels]
    return [["kernel or step", "calls", "ms"], *lines, *([k, "", f"{s * 1e3:.0f}"] for k, s in result.seconds.items())]


def top_m(folder: Path, rows: int) -> Lines:
    """Seconds of a plan from the hardest of each row, the first run and another."""
    seconds = [plan(folder, rows, "cuda", "--graph", "top-m")[0] for _ in range(2)]
    return [["rows", "first, s", "again, s"], [f"{rows:,}", *(f"{each:.2f}" for each in seconds)]]


def report(folder: Path, rows: int) -> Lines:
    """Seconds of a report on a plan, and its gap on both devices where that is soon done."""
    plan(folder, rows, "cuda")
    inputs = folder / f"x{rows}.npy", folder / f"y{rows}.npy", "-p", folder / "perm.npy"
    lines = [["rows", "device", "s", "gap of the plan"]]
    for device in ["cuda", "cuda", "cpu"][: 3 if rows <= 20_000 else 2]:
        output = folder / "report.json"
        command = [*GCBS, "report", *inputs, "--device", device, "-o", output, "--force", "-q"]
        seconds = seconds_of(lambda command=command: run(*command))  # type: ignore[misc]
        gap = json.loads(output.read_text())["gap"]["plan"]
        lines.append([f"{rows:,}", device, f"{seconds:.2f}", f"{gap:.7f}"])
    return lines


def main(arguments: list[str] | None = None) -> None:
    """Do one step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", type=int, choices=range(1, 6), help="which")
    parser.add_argument("out", type=Path, help="folder for the tables")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    step = Step(options.step, options.out)
    wrong = "dump the first 20 (i, j, exact, seen) and run twice: what varies is a race"
    smaller = "smaller tiles (GPU_TILE), or the GPU with more memory"
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as name:
        folder = Path(name)
        if options.step == 1:
            step.part("The machine", about_the_machine, "look at nvidia-smi and torch.version.cuda", anywhere=True)
            step.part("Ceilings", ceilings, "the types one by one")
            step.part("A plan on both devices", lambda: plan_on_both(folder), wrong, anywhere=True)
            step.part("Tests", pytest_gpu, wrong, anywhere=True)
            step.part("Sanitizer", lambda: sanitizer(folder), "another path to compute-sanitizer")
        if options.step == 2:
            step.part("A strip", strip, "under 600 T/s in float16: larger tiles; out of resources: fewer PAIRS")
        if options.step == 3:
            step.part("Scaling", lambda: scaling(folder, [100_000, 500_000, 1_000_000], 3), smaller)
            step.part("Profile", profile, "nsys, or the seconds by step in the manifest")
        if options.step == 4:
            step.part("Five million rows", lambda: scaling(folder, [5_000_000], 1), f"{smaller}; 30 GB of disk")
        if options.step == 5:
            for rows in (20_000, 100_000, 1_000_000):
                step.part(f"Report of {rows:,}", lambda rows=rows: report(folder, rows), smaller)  # type: ignore[misc]
                step.part(f"Top-m of {rows:,}", lambda rows=rows: top_m(folder, rows), smaller)  # type: ignore[misc]


if __name__ == "__main__":
    main()
