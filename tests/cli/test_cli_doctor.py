"""`gcbs doctor`: what it finds is what is there, and its forecast is near what a plan finds."""

import json
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from tests.cli.conftest import Gcbs, entry_of


def test_it_finds_what_is_there(gcbs: Gcbs) -> None:
    found = json.loads(gcbs("doctor", "--seconds", "0.1", "--json").stdout)
    assert found["libraries"]["torch"] == version("torch")
    cpu = found["devices"][0]
    assert cpu["name"] == "cpu"
    assert cpu["fp32_gflops"] > 0.1
    assert cpu["free_memory"] > 2**20
    for package in found["optional"]:
        assert (package["version"] is not None) == (find_spec(package["name"].replace("-", "_")) is not None)
    assert found["forecast"] is None


def test_the_forecast_is_near_what_a_plan_finds(gcbs: Gcbs, folder: Path) -> None:
    rows, dim = 3000, 64
    generator = np.random.default_rng(0)
    for side in "xy":
        np.save(f"big-{side}.npy", generator.standard_normal((rows, dim), dtype=np.float32))
    words = ["--rows", rows, "--dim", dim, "--seconds", "0.1", "--json"]
    forecast = json.loads(gcbs("doctor", *words).stdout)["forecast"]
    assert gcbs("plan", "big-x.npy", "big-y.npy", "-o", "p.npy", "-q", "--device", "cpu").exit_code == 0
    entry = entry_of("p.npy")
    assert forecast["entries"] == pytest.approx(entry["graph"]["edges"], rel=0.1)  # sides unlike: each edge once
    assert forecast["fits"] is True
    assert forecast["memory"] > 2 * rows * dim * 4


def test_a_plan_too_large_is_said_to_be(gcbs: Gcbs) -> None:
    result = gcbs("doctor", "--rows", 50_000_000, "--dim", 1024, "--seconds", "0.05")
    assert "more than is free" in " ".join(result.stdout.split())
