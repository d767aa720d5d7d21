"""Limits of control groups, in folders laid out as the kernel lays them out."""

from pathlib import Path

import numpy as np
import pytest

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system import limits
from gcbs_cli.system.errors import BadInput

GIB = 2**30


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return folder


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put files where gcbs looks for its control group."""

    def put(own: str, **files: str) -> None:
        root = lay_out(
            tmp_path / "cgroup", {name.replace("__", "/").replace("_DOT_", "."): t for name, t in files.items()}
        )
        (tmp_path / "own").write_text(own)
        for function in (limits.cgroup_memory, limits.cgroup_processors):
            monkeypatch.setattr(function, "__defaults__", (root, tmp_path / "own"))

    return put


def test_version_2_at_the_root_of_a_container(mount) -> None:
    mount("0::/\n", memory_DOT_max=str(2 * GIB), memory_DOT_current=str(GIB), cpu_DOT_max="150000 100000")
    assert limits.cgroup_memory() == [GIB]
    assert limits.cgroup_processors() == [1.5]


def test_version_2_limits_of_the_own_group_and_of_those_above(mount) -> None:
    mount(
        "0::/user.slice/job\n",
        memory_DOT_max="max",
        user_DOT_slice__memory_DOT_max=str(4 * GIB),
        user_DOT_slice__memory_DOT_current=str(3 * GIB),
        user_DOT_slice__cpu_DOT_max="max 100000",
        user_DOT_slice__job__memory_DOT_max=str(2 * GIB),
        user_DOT_slice__job__memory_DOT_current="0",
        user_DOT_slice__job__cpu_DOT_max="300000 100000",
    )
    assert limits.cgroup_memory() == [GIB, 2 * GIB]
    assert limits.cgroup_processors() == [3.0]


def test_page_cache_can_be_dropped(mount) -> None:
    mount("0::/\n", memory_DOT_max="1000", memory_DOT_current="900", memory_DOT_stat="anon 5\ninactive_file 700")
    assert limits.cgroup_memory() == [800]


def test_version_1(mount) -> None:
    mount(
        "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n0::/\n",
        memory__memory_DOT_limit_in_bytes="9223372036854771712",
        memory__memory_DOT_usage_in_bytes="5",
        memory__docker__abc__memory_DOT_limit_in_bytes=str(GIB),
        memory__docker__abc__memory_DOT_usage_in_bytes="24",
        cpu__cpu_DOT_cfs_quota_us="-1",
        cpu__cpu_DOT_cfs_period_us="100000",
        cpu__docker__abc__cpu_DOT_cfs_quota_us="200000",
        cpu__docker__abc__cpu_DOT_cfs_period_us="100000",
    )
    assert limits.cgroup_memory() == [GIB - 24]
    assert limits.cgroup_processors() == [2.0]


@pytest.mark.parametrize(
    "own",
    ["", "0::/../../above\n", "0::/elsewhere\n", "nonsense\n0:\n"],
    ids=["none", "above", "elsewhere", "nonsense"],
)
@pytest.mark.parametrize("text", ["", "max", "-", "12 34 56", "1e9", "100000 0"])
def test_what_cannot_be_read_limits_nothing(mount, own: str, text: str) -> None:
    mount(own, memory_DOT_max=text, cpu_DOT_max=text)
    assert limits.cgroup_memory() == []
    assert limits.cgroup_processors() == []


def test_the_limit_is_refused_before_the_work_with_what_fits(mount) -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1500, 8)).astype(np.float32)
    pair = PairedRows(
        rows / np.linalg.norm(rows, axis=1, keepdims=True), rows / np.linalg.norm(rows, axis=1, keepdims=True)
    )
    room = 60 * 2**20 + CpuBackend().workers * 20 * 2**20
    mount("0::/\n", memory_DOT_max=str(room), memory_DOT_current="0")
    assert limits.available_memory() <= room
    settings = PlanSettings(device="cpu", quantile=0.1)
    with pytest.raises(BadInput, match=r"can be used: the plan would need about .*--quantile 0\.\d+ .* would fit"):
        make_plan(pair, settings)
    assert len(make_plan(pair, PlanSettings(device="cpu", quantile=0.99)).perm) == 1500


@pytest.mark.parametrize(("quota", "threads"), [("50000 100000", 1), ("100000 100000", 1), ("max 100000", None)])
def test_threads_follow_the_quota(mount, monkeypatch, quota: str, threads: int | None) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    mount("0::/\n")
    unlimited = limits.available_cpus()
    mount("0::/\n", cpu_DOT_max=quota)
    assert limits.available_cpus() == (threads or unlimited)
    assert CpuBackend().workers == (threads or unlimited)
