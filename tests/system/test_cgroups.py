"""Limits of control groups, in folders laid out as the kernel lays them out."""

import os

import pytest
from running import SAMPLE, run_gcbs
from unit_data import make_pair

from gcbs_cli.planning.plan import make_plan
from gcbs_cli.products.cpu import CpuBackend
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system import limits
from gcbs_cli.system.errors import BadInput

GIB = 2**30


@pytest.fixture
def mount(tmp_path, monkeypatch):
    """Put files where gcbs looks for its control group."""

    def put(own, files=None):
        (tmp_path / "own").write_text(own + "\n")
        for name, text in (files or {}).items():
            path = tmp_path / "cgroup" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        for function in (limits.cgroup_memory, limits.cgroup_processors):
            monkeypatch.setattr(function, "__defaults__", (tmp_path / "cgroup", tmp_path / "own"))

    return put


def test_version_2_limits_of_a_container_less_its_page_cache_and_of_groups_above_the_own(mount):
    mount("0::/", {"memory.max": str(2 * GIB), "memory.current": str(GIB), "cpu.max": "150000 100000"})
    assert limits.cgroup_memory() == [GIB]
    assert limits.cgroup_processors() == [1.5]
    mount("0::/", {"memory.max": "1000", "memory.current": "900", "memory.stat": "anon 5\ninactive_file 700"})
    assert limits.cgroup_memory() == [800]
    slice_files = {"memory.max": str(4 * GIB), "memory.current": str(3 * GIB), "cpu.max": "max 100000"}
    job_files = {"memory.max": str(2 * GIB), "memory.current": "0", "cpu.max": "300000 100000"}
    groups = {
        "user.slice/": slice_files,
        "user.slice/job/": job_files,
        "": {"memory.max": "max", "cpu.max": "max 100000"},
    }
    mount("0::/user.slice/job", {group + name: text for group, files in groups.items() for name, text in files.items()})
    assert limits.cgroup_memory() == [GIB, 2 * GIB]
    assert limits.cgroup_processors() == [3.0]


@pytest.mark.parametrize("own", ["", "0::/../../above", "0::/elsewhere", "nonsense\n0:"])
@pytest.mark.parametrize("text", ["", "max", "-", "12 34 56", "1e9", "100000 0"])
def test_what_cannot_be_read_limits_nothing(mount, own, text):
    mount(own, {"memory.max": text, "cpu.max": text})
    assert limits.cgroup_memory() == []
    assert limits.cgroup_processors() == []


def test_the_limit_is_refused_before_the_work_with_what_fits(mount):
    room = 80 * 2**20 + CpuBackend().workers * 34 * 2**20
    mount("0::/", {"memory.max": str(room), "memory.current": "0"})
    assert limits.available_memory() <= room
    pair, settings = make_pair("related", 1500), PlanSettings(device="cpu", quantile=0.1)
    with pytest.raises(
        BadInput, match=r"can be used: the plan would need about .* entries a row would fit; lower --per-row"
    ):
        make_plan(pair, settings)
    assert len(make_plan(pair, settings.changed(quantile=0.99)).perm) == 1500


@pytest.mark.parametrize(("quota", "threads"), [("50000 100000", 1), ("100000 100000", 1), ("max 100000", None)])
def test_threads_follow_the_quota(mount, monkeypatch, quota, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    mount("0::/")
    unlimited = limits.available_cpus()
    mount("0::/", {"cpu.max": quota})
    assert limits.available_cpus() == CpuBackend().workers == (threads or unlimited)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
def test_threads_follow_omp_num_threads(mount, monkeypatch):
    mount("0::/")
    for threads in (1, 2):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        assert limits.available_cpus() == CpuBackend().workers == threads


@pytest.mark.parametrize(
    "variable", [{"NUMBA_NUM_THREADS": "0"}, {"OMP_NUM_THREADS": "²"}, {"OMP_NUM_THREADS": "0"}], ids=str
)
def test_a_number_of_threads_that_is_none_is_ignored(tmp_path, variable):
    words = "plan", SAMPLE / "x.npy", SAMPLE / "y.npy", "-q", "-o", tmp_path / "perm.npy"
    run = run_gcbs(*words, env=os.environ | variable)
    assert (run.returncode, run.stderr) == (0, "")
