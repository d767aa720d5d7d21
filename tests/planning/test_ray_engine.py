"""Parts as tasks of a real Ray cluster of two nodes on this machine, one of which is killed in the middle."""

import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from gcbs_cli.data.opening import from_array
from gcbs_cli.data.reading import PairStream
from gcbs_cli.planning.parts import ray_engine
from gcbs_cli.planning.parts.part import plan_part
from gcbs_cli.planning.parts.plan import plan_in_parts
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.errors import BadInput

ray = pytest.importorskip("ray", reason="needs gcbs[ray]")

PARTS, ROWS = 5, 1003
SETTINGS = PlanSettings(partitions=PARTS)
LONGEST_WAIT = 600.0
"""Seconds that anything is waited for; the test ends in tens of them on a machine that has other work too."""
MARK = "GCBS_TEST_MARK"
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # everywhere: what keeps to loopback
    "RAY_raylet_start_wait_time_s": str(int(LONGEST_WAIT)),
    "RAY_memory_monitor_refresh_ms": "0",  # other tests may fill the memory; no worker is to die of that
    "RAY_local_fs_capacity_threshold": "0.999",
}
"""For all processes of the cluster."""
DEATHS = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
"""A killed node refuses five calls in five seconds; one that is only busy has ten seconds for each."""
NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False, "dashboard_agent_listen_port": 0}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # the warnings are Ray's own


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A head and a second node of one core each, on loopback, on ports that are free; nothing of it is left."""
    from ray.cluster_utils import Cluster

    here = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(here), str(here.parents[1])]))
    monkeypatch.setenv(MARK, str(tmp_path / "reached"))
    for name, setting in ENVIRONMENT.items():
        monkeypatch.setenv(name, setting)
    monkeypatch.setattr("ray._private.ray_constants.ENABLE_RAY_CLUSTER", False)  # read when Ray was imported
    folder = Path(tempfile.mkdtemp(prefix="gcbs-ray-", dir="/tmp"))  # the paths of its sockets must be short
    (folder / "ray").mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(folder))
    made = Cluster()
    try:
        made.add_node(**NODE, _system_config=DEATHS)
        made.second = made.add_node(**NODE, resources={"second": 1.0})
        made.wait_for_nodes(timeout=LONGEST_WAIT)
        ray.init(address=made.address, log_to_driver=False, configure_logging=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def stuck_on_the_second_node(task, rows):
    """A part's plan; the second node says that it has one and never ends it, and the head begins only then."""
    own = ray.get_runtime_context().get_node_id()
    if any(node["NodeID"] == own and "second" in node["Resources"] for node in ray.nodes()):
        Path(os.environ[MARK]).touch()
        time.sleep(LONGEST_WAIT)
    wait_for(Path(os.environ[MARK]))
    return plan_part(task, rows)


def wait_for(mark):
    deadline = time.monotonic() + LONGEST_WAIT
    while not mark.exists():
        assert time.monotonic() < deadline, "the second node was given no part"
        time.sleep(0.05)


def pairs():
    generator = np.random.default_rng(5)
    x = generator.normal(size=(ROWS, 16))
    return PairStream(from_array(x, "x"), from_array(x + 0.5 * generator.normal(size=x.shape), "y"))


def test_a_killed_node_costs_only_its_parts(cluster, tmp_path, monkeypatch):
    wanted = plan_in_parts(pairs(), SETTINGS)
    monkeypatch.setattr(ray_engine, "plan_part", stuck_on_the_second_node)
    with ThreadPoolExecutor(1) as pool:
        planned = pool.submit(plan_in_parts, pairs(), SETTINGS, engine=ray_engine.plan_on_ray)
        wait_for(tmp_path / "reached")
        cluster.remove_node(cluster.second, allow_graceful=False)
        found = planned.result(LONGEST_WAIT)
    assert (found.perm == wanted.perm).all()
    assert found.partitions.parts == PARTS


def test_no_cluster_is_one_clear_line(tmp_path, monkeypatch):
    def none_there(**options):
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "init", none_there)
    with pytest.raises(BadInput, match="--address auto: no Ray cluster answers .*--address local"):
        list(ray_engine.plan_on_ray([], lambda part: None))


def test_what_ray_prints_does_not_reach_stdout(monkeypatch, capsys):
    monkeypatch.setattr(ray, "init", lambda **options: None)
    with ray_engine.connected(ray, "auto"):
        print("a node was lost")
    print("a permutation")
    assert capsys.readouterr() == ("a permutation\n", "a node was lost\n")
