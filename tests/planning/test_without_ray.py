"""Without Ray installed, --engine ray says what to install."""

import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gcbs_cli.cli.app import app


def test_ray_is_named_where_it_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(300, 4)))
    x = str(tmp_path / "x.npy")
    result = CliRunner().invoke(
        app, ["plan", x, x, "--partitions", "2", "--engine", "ray", "-o", str(tmp_path / "p.npy")]
    )
    assert result.exit_code == 2
    assert "pip install 'gcbs[ray]'" in " ".join(result.output.split())
