import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from gcbs_cli.plan_file.manifest import (
    GraphRecord,
    InputRecord,
    InputsRecord,
    ManifestEntry,
    QuantileRecord,
    permutation_hash,
)

MakeEntry = Callable[..., ManifestEntry]


def build_entry(perm: NDArray[np.int64], **changed: object) -> ManifestEntry:
    def side(name: str) -> InputRecord:
        return InputRecord(
            paths=[f"{name}.npy"], name=name, rows=len(perm), dim=8, dtype="float16", fingerprint=f"xxh3:{name}"
        )

    fields: dict[str, object] = {
        "tool_version": "0.1.0",
        "command": ["gcbs", "plan", "x.npy", "y.npy", "-o", "perm.npy"],
        "created": "2024-05-01T12:00:00+00:00",
        "inputs": InputsRecord(x=side("x"), y=side("y")),
        "rows": len(perm),
        "batch_size": 4,
        "temperature": 0.05,
        "seed": 0,
        "quantile": QuantileRecord(
            method="sample", requested=0.999, threshold=0.61, achieved=0.9989, interval=(0.9985, 0.9993)
        ),
        "graph": GraphRecord(edges=120, isolated=3, max_degree=17),
        "bandwidth": {"before": 90, "after": 20},
        "method": "rcm",
        "permutation_hash": permutation_hash(perm),
        "timings": {"edges": 0.5},
        "libraries": {"numpy": np.__version__},
    }
    return ManifestEntry.model_validate(fields | changed)


@pytest.fixture
def make_entry() -> MakeEntry:
    return build_entry


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "gcbs-test", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("this user cannot mount a tmpfs")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)
