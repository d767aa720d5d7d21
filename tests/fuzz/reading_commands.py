"""Commands that read a file which nobody should trust, and how they may end."""

import os
import shutil
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from gcbs_cli.cli.app import app

PLAN = "plan x.npy y.npy -o out.npy -k 50"
READING = {
    "shards of": "plan shards shards -o out.npy -k 2",
    "permutation": "check x.npy y.npy -p {path}",
    "values": PLAN + " --groups {path}",
    "applied": "apply {path} -p perm.npy -o out{suffix}",
    "texts": "embed {path} --model none --x-text id --y-text id -o out.npy",
    "manifest": "check x.npy y.npy -p perm.npy",
    "report": "history {path}",
    "config": "--config {path} " + PLAN,
    "npy": "plan {path} {path} -o out.npy -k 2",
    "": "plan {path} -o out.npy -k 2",
}
"""For the beginning of what a file is called to be."""


def check_command(target, suffix, data, folder):
    """Give a file to the command that reads its kind: exit code 0 or 2, one line, no traceback, no output."""
    os.chdir(folder)
    rows = np.random.default_rng(0).normal(size=(300, 4))
    for name, array in (("x", rows), ("y", rows[::-1]), ("perm", np.arange(300))):
        np.save(f"{name}.npy", array)
    path = Path(f"input{suffix}")
    path.write_bytes(data)
    shutil.rmtree("shards", ignore_errors=True)
    Path("shards").mkdir()
    Path("shards", f"part-0{suffix}").write_bytes(data)
    if target == "manifest":
        Path("perm.npy.manifest.json").write_bytes(data)
    line = next(line for kind, line in READING.items() if target.startswith(kind))
    ended = CliRunner().invoke(app, [*line.format(path=path, suffix=suffix).split(), "-q"])
    outputs = list(Path().glob("out.*"))
    assert ended.exit_code in ((0, 1, 2) if line.startswith("check") else (0, 2)), (ended.output, ended.exception)
    assert "Traceback" not in ended.output
    if ended.exit_code == 2:
        # The line before the last may name the file of the defaults.
        assert len(ended.stderr.splitlines()) <= 1 + line.startswith("--config"), ended.stderr
        assert not ended.stdout
        assert not outputs
    for left in [*outputs, *Path().glob("perm.npy.*")]:
        left.unlink()
    return ended.exit_code
