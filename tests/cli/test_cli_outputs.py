"""No output replaces an input of its own command or another output, whatever --force says."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import SAMPLE, Gcbs


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Embeddings in several forms, with links to them, ids, and two plans, one with its report."""
    folder = tmp_path_factory.mktemp("made")
    sides = {side: np.load(SAMPLE / f"{side}.npy")[:300] for side in "xy"}
    pq.write_table(pa.table({side: list(np.float32(rows)) for side, rows in sides.items()}), folder / "p.parquet")
    for side, rows in sides.items():
        np.save(folder / f"{side}.npy", rows)
        (folder / f"sh{side}").mkdir()
        np.save(folder / f"sh{side}" / "part-0.npy", rows)
    (folder / "g.txt").write_text("".join(f"{row // 2}\n" for row in range(300)))
    (folder / "g.csv").write_text("id\n" + (folder / "g.txt").read_text())
    (folder / "lines.jsonl").write_text('{"row": 1}\n' * 300)
    command = [sys.executable, "-m", "gcbs_cli", "plan", "x.npy", "y.npy", "-o", "perm.npy", "--report", "r.json"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    (folder / "folder").mkdir()  # a plan of an older version
    (folder / "folder" / "part-00000.npy").touch()
    (folder / "soft.npy").symlink_to("x.npy")
    (folder / "hard.npy").hardlink_to(folder / "x.npy")
    (folder / "here").symlink_to(".")
    return folder


CALLS = [
    "plan x.npy y.npy -o x.npy -f",
    "plan x.npy y.npy -o soft.npy -f",
    "plan x.npy y.npy -o hard.npy -f",
    "plan x.npy y.npy -o here/y.npy -f",
    "plan p.parquet -o p.parquet -f",
    "plan shx shy -o shx/part-0.npy -f",
    "plan shx/*.npy shy/*.npy -o shy/part-0.npy -f",
    "plan x.npy y.npy --groups g.txt -o g.txt -f",
    "plan x.npy y.npy -o o.npy --report x.npy -f",
    "plan x.npy y.npy -o o.npy --report o.npy -f",
    "plan x.npy y.npy -o o.npy --report here/o.npy",
    "plan x.npy y.npy -o o.npy --report o.npy.manifest.json -f",
    "plan local://{cwd}/x.npy y.npy -o x.npy -f",
    "report x.npy y.npy -p perm.npy -o perm.npy -f",
    "report x.npy y.npy -p perm.npy --html perm.npy -f",
    "report x.npy y.npy -p perm.npy --html perm.npy.manifest.json -f",
    "report x.npy y.npy -p folder -o folder/part-00000.npy -f",
    "report x.npy y.npy -p perm.npy -o same --html same",
    "report x.npy y.npy -p perm.npy --groups g.txt -o g.txt -f",
    "report x.npy y.npy -p perm.npy --rows 100 -o y.npy -f",
    "mine p.parquet -o p.parquet -f",
    "mine x.npy y.npy --positives g.csv -o g.csv -f",
    "apply perm.npy lines.jsonl -o lines.jsonl -f",
    "apply perm.npy x.npy -o perm.npy -f",
    "history r.json --html r.json -f",
    "history r.json --plans perm.npy --html perm.npy -f",
]


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and "here" not in path.parts}


@pytest.mark.parametrize("words", CALLS)
def test_an_output_is_neither_an_input_nor_another_output(
    made: Path, gcbs: Gcbs, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.chdir(made)
    before = everything(made)
    refused = gcbs(*words.format(cwd=made).split())
    assert refused.exit_code == 2
    assert "name another" in " ".join(refused.output.split())
    assert everything(made) == before


def test_file_names_that_are_not_utf8(folder: Path, gcbs_process) -> None:
    odd = os.fsdecode(b"\xff")
    x, y, perm, report, page = f"{odd}x.npy", f"{odd}y.npy", f"{odd}p.npy", f"{odd}r.json", f"{odd}h.html"
    os.rename("x.npy", x)
    os.rename("y.npy", y)
    for words in (
        ["plan", x, y, "-o", perm, "--report", report, "--json"],
        ["report", x, y, "-p", perm, "--html", page],
        ["check", perm, x, y],
        ["history", report, "--html", "history.html"],
    ):
        done = gcbs_process(*words)
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert os.path.exists(perm)
    Path(page).read_text(encoding="utf-8")
