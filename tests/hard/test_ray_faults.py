"""Plans in parts on a Ray cluster to which things happen: the same bytes as on this machine alone, or one line.

The cluster's nodes are processes of this machine.
"""

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from running import run_gcbs

from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.reading import PairStream
from gcbs_cli.planning.parts import ray_engine
from gcbs_cli.planning.parts.part import plan_part
from gcbs_cli.planning.parts.plan import plan_in_parts
from gcbs_cli.settings.plan import PlanSettings

ray = pytest.importorskip("ray")
ROOT = Path(__file__).parents[2]
PARTS, ROWS, DIM = 8, 8_000, 64
MARK = "GCBS_TEST_MARK"
"""The variable that names the file by which the second node says that it has a part."""
LONGEST = 240.0
"""Seconds until anything that hangs is given up."""
VARIABLES = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # everywhere: what keeps to loopback
    "RAY_raylet_start_wait_time_s": "240",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_local_fs_capacity_threshold": "0.999",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
    "PYTHONPATH": os.pathsep.join(map(str, [Path(__file__).parent, ROOT / "tests", ROOT])),
}
DEATHS = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False, "dashboard_agent_listen_port": 0}
LAST_WORDS = "The program will terminate."
"""Ray's own, in the line that names the head that it lost, before it ends the process."""
OF_RAYS_CORE = re.compile(r"\[\d{4}-.*:info_message:")
"""Lines on stderr that nobody can turn off."""
PLAN = ["plan", "x.npy", "y.npy", "-k", "32", "--partitions", str(PARTS), "-q", "--force", "-o"]
SLOW_START = "import sys, time\nif 'default_worker' in str(sys.orig_argv):\n    time.sleep(40)\n"


@pytest.fixture
def data(monkeypatch):
    """A folder with the pairs and the plan of this machine alone; Ray's sockets lie beside it."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    # The paths of Ray's sockets must be short, and its processes write there until they end.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as place:
        monkeypatch.setenv("RAY_TMPDIR", place)
        folder = Path(place) / "data"
        folder.mkdir()
        monkeypatch.chdir(folder)
        make_pairs(1)
        yield folder


def make_pairs(repeats):
    """x.npy and y.npy, each coordinate so many times, and local.npy."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, DIM), np.float32)
    for side, values in (("x", x), ("y", x + rng.standard_normal(x.shape, np.float32))):
        np.save(f"{side}.npy", np.tile(values, (1, repeats)))
    ended = run_gcbs(*PLAN, "local.npy")
    assert ended.returncode == 0, ended.stderr


@pytest.fixture
def cluster():
    """Starts a head with so many cores, and so many nodes of one core; ended after the test."""
    from ray.cluster_utils import Cluster

    clusters = []

    def start(nodes, num_cpus=1, begins=""):
        """`begins`: lines of Python that run first in the workers of one more node."""
        cluster = Cluster()
        clusters.append(cluster)
        cluster.add_node(**NODE | {"num_cpus": num_cpus}, _system_config=DEATHS)
        for _ in range(nodes):
            cluster.add_node(**NODE)
        if begins:
            Path("begins").mkdir()
            Path("begins", "sitecustomize.py").write_text(begins)
            cluster.add_node(**NODE, env_vars={"PYTHONPATH": f"{Path('begins').resolve()}:{VARIABLES['PYTHONPATH']}"})
        cluster.wait_for_nodes(timeout=LONGEST)
        return cluster

    yield start
    if ray.is_initialized():
        ray.shutdown()
    for cluster in clusters:
        cluster.shutdown()


def start_plan(cluster):
    words = [sys.executable, "-m", "gcbs_cli", *PLAN, "ray.npy", "--engine", "ray", "--address", cluster.address]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_same_plan(process):
    """The command ended with the plan of this machine alone, and said nothing."""
    _, stderr = process.communicate(timeout=LONGEST)
    assert (process.returncode, stderr) == (0, "")
    assert Path("ray.npy").read_bytes() == Path("local.npy").read_bytes()


def lines_without_a_plan(process):
    """What a command that ended without a plan said, but for what Ray's core says beside it."""
    _, stderr = process.communicate(timeout=LONGEST)
    assert process.returncode != 0
    assert not Path("ray.npy").exists()
    return [line for line in stderr.splitlines() if line.endswith(LAST_WORDS) or not OF_RAYS_CORE.match(line)]


def test_nodes_that_die_at_random_moments_change_no_plan(data, cluster, seeds):
    nodes_of = cluster(2)
    ray.init(address=nodes_of.address, log_to_driver=False, configure_logging=False)
    nodes = [node for node in nodes_of.list_all_nodes() if not node.head]
    local, moments, lasts = np.load("local.npy"), random.Random(1), 10.0
    with ThreadPoolExecutor(1) as pool:
        for _ in seeds(10):
            stream, began = PairStream(*open_pair("x.npy", "y.npy")), time.monotonic()
            settings = PlanSettings(partitions=PARTS, batch_size=32, engine="ray")
            planned = pool.submit(plan_in_parts, stream, settings)
            time.sleep(moments.uniform(0.0, lasts))
            nodes_of.remove_node(nodes.pop(moments.randrange(len(nodes))), allow_graceful=False)
            assert np.array_equal(planned.result(LONGEST).perm, local)
            lasts = min(lasts, time.monotonic() - began)
            nodes.append(nodes_of.add_node(**NODE))


def stuck_on_the_second_node(task, rows):
    """A part's plan; the second node says that it has one and never ends it, and the head begins only then."""
    own, mark = ray.get_runtime_context().get_node_id(), Path(os.environ[MARK])
    if any(node["NodeID"] == own and "second" in node["Resources"] for node in ray.nodes()):
        mark.touch()
        time.sleep(LONGEST)
    wait_for(mark)
    return plan_part(task, rows)


def wait_for(mark):
    deadline = time.monotonic() + LONGEST
    while not mark.exists():
        assert time.monotonic() < deadline, "the second node was given no part"
        time.sleep(0.05)


def test_a_killed_node_costs_only_its_parts(data, cluster, monkeypatch):
    monkeypatch.setenv(MARK, str(data / "reached"))
    monkeypatch.setattr(ray_engine, "plan_part", stuck_on_the_second_node)
    nodes = cluster(0)
    second = nodes.add_node(**NODE, resources={"second": 1.0})
    nodes.wait_for_nodes(timeout=LONGEST)
    ray.init(address=nodes.address, log_to_driver=False, configure_logging=False)
    stream = PairStream(*open_pair("x.npy", "y.npy"))
    settings = PlanSettings(partitions=PARTS, batch_size=32, engine="ray")
    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(plan_in_parts, stream, settings)
        wait_for(data / "reached")
        nodes.remove_node(second, allow_graceful=False)
        assert np.array_equal(planned.result(LONGEST).perm, np.load("local.npy"))


def test_rows_larger_than_the_object_store_give_the_same_plan(data, cluster):
    make_pairs(36)  # 147 MB beside a store of 80
    assert_same_plan(start_plan(cluster(0)))


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can hide a folder from a process")
def test_a_node_that_does_not_see_the_data_gives_the_same_plan(data, cluster):
    hide = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
done = libc.unshare(0x20000), libc.mount(b"none", b"/", None, 0x44000, None)  # a mount space of its own, private
if any(done) or libc.mount(b"none", b"{data}", b"tmpfs", 0, None):
    raise SystemExit("the folder cannot be hidden")
"""
    assert_same_plan(start_plan(cluster(0, num_cpus=0, begins=hide)))


def test_a_node_with_another_gcbs_is_refused(data, cluster):
    other = "import gcbs_cli.system.version as v\nv.VERSION = '0.0.9'\n"
    process = start_plan(cluster(0, num_cpus=0, begins=other))
    (line,) = lines_without_a_plan(process)
    assert line.startswith("gcbs: ")
    assert "0.0.9" in line
    assert process.returncode == 2


@pytest.mark.parametrize("dies", ["the head", "its server"])
def test_a_head_that_dies_before_a_part_is_done_leaves_no_plan_and_at_most_a_line(data, cluster, dies):
    head = cluster(0, num_cpus=0, begins=SLOW_START)
    process = start_plan(head)
    time.sleep(15.0)
    if dies == "the head":
        head.shutdown()
    else:
        head.head_node.kill_gcs_server()
    lines = lines_without_a_plan(process)  # Ray's core ends the process, sometimes without its last words
    assert len(lines) <= 1
    assert all(line.startswith("gcbs: ") or line.endswith(LAST_WORDS) for line in lines)
    head.shutdown()
    assert_same_plan(start_plan(cluster(1)))
