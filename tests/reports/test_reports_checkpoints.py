"""--work-dir of a report: after a stop at any moment the same figures, and no work done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import numpy as np
import pytest
from interrupted import Killed, watched_tiles
from unit_data import make_pair

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.checkpoints import Checkpoints, run_key
from gcbs_cli.products import tiles
from gcbs_cli.products.backend import choose_backend
from gcbs_cli.products.threshold import find_threshold
from gcbs_cli.reports.build import make_reports
from gcbs_cli.reports.forecast import ReportForecast, forecast_report
from gcbs_cli.reports.losses import Loss, LossKind
from gcbs_cli.settings.plan import GraphSettings
from gcbs_cli.settings.report import ReportSettings
from gcbs_cli.system import limits as memory
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import parse_size
from gcbs_cli.system.progress import Progress

ROWS, TILE_ROWS = 300, 16
BLOCK = 3 * TILE_ROWS * ROWS
PASSES_AT_MOST = 4
"""Each ends in a block that is not full."""
PERM = np.random.default_rng(0).permutation(ROWS)
PLAIN = ReportSettings(
    [8], [0.05, 0.5], trials=2, tile_rows=TILE_ROWS, device="cpu", graph=GraphSettings(quantile=0.97)
)
SETTINGS = {
    "plain": PLAIN,
    "exact": replace(PLAIN, graph=GraphSettings(quantile=0.97, method="exact")),
    "views": replace(PLAIN, losses=[Loss(LossKind.SIMCLR)], groups=np.arange(ROWS) // 2),
    "triplet, ranks": replace(PLAIN, losses=[Loss(LossKind.TRIPLET)], fn_top=3),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "BLOCK_ENTRIES", BLOCK)


def reported(folder: Path | None, settings: ReportSettings, stop_after: int | None = None) -> tuple[list | None, int]:
    """The figures without the times, or None when it was stopped; how many entries the work was done for."""
    with watched_tiles(stop_after) as work:
        try:
            if folder is None:
                reports = make_reports(make_pair("related", ROWS), PERM, settings)
            else:
                with Checkpoints(folder, "key") as store:
                    reports = make_reports(make_pair("related", ROWS), PERM, settings, checkpoints=store)
        except Killed:
            return None, work.entries
    return [report.model_dump(exclude={"timings"}) for report in reports], work.entries


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_killed_report_goes_on_with_the_same_figures(tmp_path: Path, settings: ReportSettings) -> None:
    whole, all_entries = reported(None, settings)
    assert reported(tmp_path / "work", settings, int(0.9 * all_entries)) == (None, ANY)
    assert reported(tmp_path / "work", settings, int(0.6 * all_entries))[0] in (None, whole)
    there = len(list((tmp_path / "work").glob("block-*.npy")))
    assert there >= 3
    result, entries = reported(tmp_path / "work", settings)
    assert result == whole
    assert entries <= all_entries - (there - PASSES_AT_MOST) * BLOCK
    again, entries = reported(tmp_path / "work", settings)
    assert again == whole
    assert entries <= all_entries - ROWS * ROWS * len(list((tmp_path / "work").glob("block-*-00000-*.npy")))


def test_blocks_of_two_passes_lie_side_by_side(tmp_path: Path) -> None:
    reported(tmp_path, SETTINGS["views"])
    stages = {path.name.split("-")[1] for path in tmp_path.glob("block-*.npy")}
    assert stages == {"sums", "sidex", "sidey"}
    numbers = [path.name.split("-")[2] for path in tmp_path.glob("block-sums-*.npy")]
    assert sorted(numbers) == sorted(path.name.split("-")[2] for path in tmp_path.glob("block-sidey-*.npy"))


@pytest.mark.parametrize(
    "change",
    [
        {"temperatures": [0.1]},
        {"fn_margin": 0.9},
        {"graph": GraphSettings(quantile=0.98)},
        {"groups": np.arange(ROWS)},
        {"seed": 4},
        {"losses": [Loss(LossKind.SIMCLR)]},
    ],
    ids=["temperature", "margin", "quantile", "groups", "seed", "loss"],
)
def test_what_decides_a_report_is_in_its_key(change: dict[str, object]) -> None:
    changed = replace(PLAIN, **change)  # type: ignore[arg-type]
    assert run_key("x", "y", changed, normalize="row") != run_key("x", "y", PLAIN, normalize="row")
    assert run_key("x", "y", PLAIN, normalize="row") != run_key("x", "y", PLAIN, normalize="minmax")
    same = replace(PLAIN, tile_rows=None, max_memory=1, device="auto")
    assert run_key("x", "y", same, normalize="row") == run_key("x", "y", PLAIN, normalize="row")


def test_groups_that_differ_in_the_middle_have_another_key() -> None:
    one, other = (replace(PLAIN, groups=np.arange(5000)) for _ in range(2))
    assert run_key("x", "y", one, normalize="row") == run_key("x", "y", other, normalize="row")
    other.groups[2500] = 7
    assert run_key("x", "y", one, normalize="row") != run_key("x", "y", other, normalize="row")


def test_too_little_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gcbs_cli.planning.checkpoints.SPARE_BYTES", 1 << 60)
    with pytest.raises(BadInput, match="--work-dir .* are free"):
        reported(tmp_path, PLAIN)


def test_killed_through_the_command_line(tmp_path: Path) -> None:
    """SIGKILL after the first block is there; the second run ends with the figures of an undisturbed one."""
    rng = np.random.default_rng(0)
    for side in "xy":
        np.save(tmp_path / f"{side}.npy", rng.normal(size=(6000, 16)).astype(np.float32))
    script = (
        "from gcbs_cli.products import tiles; tiles.BLOCK_ENTRIES = 1 << 18;from gcbs_cli.__main__ import main; main()"
    )
    command = [sys.executable, "-c", script, "report", "x.npy", "y.npy", "-q", "--trials", "1", "--chunk-rows", "64"]
    command += ["--device", "cpu"]
    subprocess.run([*command, "-o", "whole.json"], cwd=tmp_path, check=True)
    command += ["-o", "report.json", "--work-dir", "work"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as run:
        while not list((tmp_path / "work").glob("block-*.npy")) and run.poll() is None:
            time.sleep(0.001)
        run.send_signal(signal.SIGKILL)
    assert run.returncode == -signal.SIGKILL
    assert not (tmp_path / "report.json").exists()
    subprocess.run(command, cwd=tmp_path, check=True)
    whole, found = (json.loads((tmp_path / name).read_text()) for name in ("whole.json", "report.json"))
    del whole["timings"], found["timings"]
    assert found == whole
    assert not (tmp_path / "work").exists()
    assert sorted(os.listdir(tmp_path)) == ["report.json", "whole.json", "x.npy", "y.npy"]


def forecast_of(pair: PairedRows, settings: ReportSettings) -> ReportForecast:
    backend = choose_backend("cpu")
    threshold = find_threshold(pair, settings.graph, settings.seed, backend, Progress())
    return forecast_report(pair, threshold, settings, backend, 7)


def test_suspected_entries_need_more_memory() -> None:
    pair, settings = make_pair("related", 300), ReportSettings([8], trials=1, graph=GraphSettings(quantile=0.5))
    none, every = (forecast_of(pair, replace(settings, fn_margin=margin)) for margin in (2.0, 0.0))
    assert every.entries == none.entries
    assert 0.8 * 96 * every.entries < every.memory - none.memory < 1.2 * 96 * every.entries


def test_too_little_memory_is_said_before_the_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, settings = make_pair("related", 700), ReportSettings([8], trials=1, graph=GraphSettings(quantile=0.5))
    expected = forecast_of(pair, settings)
    limit = (expected.fixed + expected.memory) // 2
    with watched_tiles() as work, pytest.raises(BadInput, match=r"^--max-memory .*: the report would need") as refused:
        make_reports(pair, None, replace(settings, max_memory=limit))
    assert work.entries < 700 * 700
    said = str(refused.value)
    assert "\n" not in said
    words = said.replace(",", "").split()
    quantile, larger = (words[words.index(option) + 1] for option in ("--quantile", "--max-memory"))
    assert "--rows 700" in said
    larger = said.split("--max-memory ")[-1].split()[0]
    for fits in (
        replace(settings, max_memory=limit, graph=GraphSettings(quantile=float(quantile))),
        replace(settings, max_memory=parse_size(larger, "--max-memory")),
    ):
        assert make_reports(pair, None, fits)[0].n == 700
    monkeypatch.setattr(memory, "_free_on_machine", lambda: 1 << 20)
    with pytest.raises(BadInput, match="the report would need about"):
        make_reports(pair, None, settings)


def test_equal_rows_that_no_quantile_parts() -> None:
    pair = make_pair("all-equal", 700)
    with pytest.raises(BadInput, match="leaving out equal rows"):
        make_reports(pair, None, ReportSettings([8], trials=1, max_memory=40 << 20))
