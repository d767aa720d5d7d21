import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from plan_entries import build_entry

from gcbs_cli.plan_file.manifest import ManifestEntry


@pytest.fixture
def make_entry() -> Callable[..., ManifestEntry]:
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
