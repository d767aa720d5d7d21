"""Parts as tasks of a real Ray cluster of two nodes on this machine, one of which is killed in the middle."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gcbs_cli.embeddings import from_array
from gcbs_cli.engines import ray_engine
from gcbs_cli.errors import BadInput
from gcbs_cli.partitions.build import plan_in_parts
from gcbs_cli.partitions.part_plan import PartPlan, PartTask, plan_part
from gcbs_cli.partitions.streaming import PairStream
from gcbs_cli.settings import PlanSettings

ray: Any = pytest.importorskip("ray", reason="needs gcbs[ray]")

PARTS, ROWS = 6, 1003
LONGEST_WAIT = 120.0
"""Seconds; the test ends in tens of them, on a machine with nothing else to do."""
STORE_BYTES = 80 * 2**20
MARK = "GCBS_TEST_MARK"
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head and a second node of one core each, on loopback."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])]))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "120")
    monkeypatch.setenv(MARK, str(tmp_path / "reached"))
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False},
    )
    try:
        made.second = made.add_node(num_cpus=1, resources={"second": 1.0}, object_store_memory=STORE_BYTES)
        made.wait_for_nodes()
        ray.init(address=made.address, log_to_driver=False)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def stuck_on_the_second_node(task: PartTask, x: Any, y: Any) -> PartPlan:
    """A part's plan; the second node says that it has one and never ends it."""
    own = ray.get_runtime_context().get_node_id()
    if any(node["NodeID"] == own and "second" in node["Resources"] for node in ray.nodes()):
        Path(os.environ[MARK]).touch()
        time.sleep(LONGEST_WAIT)
    return plan_part(task, x, y)


def pairs() -> PairStream:
    generator = np.random.default_rng(5)
    x = generator.normal(size=(ROWS, 16))
    return PairStream(from_array(x, "x"), from_array(x + 0.5 * generator.normal(size=x.shape), "y"))


def test_a_killed_node_costs_only_its_parts(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = plan_in_parts(pairs(), PlanSettings(), PARTS, tmp_path / "perm.npy")
    mark = tmp_path / "reached"
    killed = threading.Event()

    def kill_when_it_has_a_part() -> None:
        deadline = time.monotonic() + LONGEST_WAIT
        while not mark.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        cluster.remove_node(cluster.second, allow_graceful=False)
        killed.set()

    monkeypatch.setattr(ray_engine, "plan_task", stuck_on_the_second_node)
    killer = threading.Thread(target=kill_when_it_has_a_part)
    killer.start()
    try:
        plan = plan_in_parts(pairs(), PlanSettings(), PARTS, tmp_path / "perm.npy", engine=ray_engine.plan_on_ray)
    finally:
        killer.join()
    assert mark.exists(), "the second node was given no part"
    assert killed.is_set()
    assert (plan.perm == wanted.perm).all()


def test_no_cluster_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_there(**options: Any) -> None:
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "init", none_there)
    with pytest.raises(BadInput, match="--address auto: no Ray cluster answers .*ray start --head"):
        list(ray_engine.plan_on_ray([], lambda part: None, None))  # type: ignore[arg-type]
