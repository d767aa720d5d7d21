"""Plans in parts on a Ray cluster to which things happen: the same bytes as on this machine alone, or one line.

    python benchmarks/ray_faults.py              everything, with 20 nodes killed
    python benchmarks/ray_faults.py --kills 3 kills version

Parts: kills (a node at a random moment of a plan, and another in its place), store (rows larger than the object store),
folder (a node that does not see the folder with the data; as root), version (a node with another gcbs), head (killed in
the middle of a plan, and started anew). Prints a line a try and exits with 1 where a plan differed or a message was no
line. The cluster's nodes are processes of this machine.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
PARTS, ROWS, DIM = 8, 8_000, 64
LONGEST = 240.0
"""Seconds that anything is waited for."""
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # everywhere: what keeps to loopback
    "RAY_raylet_start_wait_time_s": "240",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_local_fs_capacity_threshold": "0.999",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",
}
DEATHS = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}
NODE: dict[str, Any] = {
    "num_cpus": 1,
    "object_store_memory": 80 << 20,
    "include_dashboard": False,
    "dashboard_agent_listen_port": 0,
}
PLAN = ["plan", "x.npy", "y.npy", "-k", "32", "--partitions", str(PARTS), "-q", "--force", "-o"]


def command(*words: str, **variables: str) -> subprocess.Popen[str]:
    """Start `gcbs plan` in the current folder."""
    call = [sys.executable, "-m", "gcbs_cli", *PLAN, *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def judge(name: str, process: "subprocess.Popen[str]") -> bool:
    """Whether a command ended with the plan of this machine alone, or with one line and none; prints which."""
    try:
        _, said = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        print(f"{name}: no end after {LONGEST:.0f} s", flush=True)
        return False
    lines, output = said.splitlines(), Path("ray.npy")
    same = output.exists() and output.read_bytes() == Path("local.npy").read_bytes()
    good = (
        same if process.returncode == 0 else len(lines) == 1 and lines[0].startswith("gcbs: ") and not output.exists()
    )
    print(f"{name}: {'same bytes' if same else f'{process.returncode} {said.strip()[-400:]}'}", flush=True)
    output.unlink(missing_ok=True)
    return good and (process.returncode != 0 or not lines)


def make_cluster(nodes: int) -> Any:
    """A head and so many nodes, each of one core."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(**NODE, _system_config=DEATHS)
    for _ in range(nodes):
        cluster.add_node(**NODE)
    cluster.wait_for_nodes(timeout=LONGEST)
    return cluster


def kills(count: int) -> bool:
    """So many plans in this process, in each of which a node dies at a random moment."""
    import ray

    from gcbs_cli.data import open_pair
    from gcbs_cli.data.reading import PairStream
    from gcbs_cli.planning.parts.plan import plan_in_parts
    from gcbs_cli.planning.parts.ray_engine import connect, plan_on_ray
    from gcbs_cli.settings.plan import PlanSettings
    from gcbs_cli.system.errors import GcbsError

    cluster, moments, lasts = make_cluster(2), random.Random(1), 10.0
    connect(ray, cluster.address)
    wanted, good, same = np.load("local.npy"), True, 0
    nodes = [node for node in cluster.list_all_nodes() if not node.head]
    with ThreadPoolExecutor(1) as pool:
        for number in range(count + 1):
            stream, began = PairStream(*open_pair("x.npy", "y.npy")), time.monotonic()
            settings = PlanSettings(partitions=PARTS, batch_size=32)
            planned = pool.submit(plan_in_parts, stream, settings, engine=plan_on_ray)
            if number:
                time.sleep(moments.uniform(0.0, lasts))
                cluster.remove_node(nodes.pop(moments.randrange(len(nodes))), allow_graceful=False)
            try:
                equal = bool((planned.result(LONGEST).perm == wanted).all())
                same += equal
                good &= equal
            except GcbsError as error:
                equal = False
                good &= len(str(error).splitlines()) == 1
                print(f"kills: {number}: {error}")
            seconds = time.monotonic() - began
            print(f"kills: {number}: {'same bytes' if equal else 'no plan'} after {seconds:.1f} s", flush=True)
            lasts = min(lasts, seconds)
            if number:
                nodes.append(cluster.add_node(**NODE))
    ray.shutdown()
    cluster.shutdown()
    print(f"kills: {same} of {count + 1} plans with the same bytes (one of them without a kill)")
    return good


def store(count: int) -> bool:
    """Rows of 147 MB on a head whose object store has 80."""
    cluster = make_cluster(0)
    for side in "xy":
        np.save(f"{side}.npy", np.tile(np.load(f"{side}.npy"), (1, 36)))
    local = command("local.npy").communicate()
    good = not any(local) and judge("store", command("ray.npy", "--engine", "ray", "--address", cluster.address))
    cluster.shutdown()
    make_inputs()
    return good


def folder(count: int) -> bool:
    """A second node that has an empty folder where the data lies; only it has a core to plan with."""
    if os.geteuid() != 0:
        print("folder: not root, who alone can hide it")
        return True
    return _with_a_node("folder", f"mount -t tmpfs none {os.getcwd()}")


def version(count: int) -> bool:
    """A second node whose gcbs says that it is another."""
    other = Path("other")
    other.mkdir()
    (other / "sitecustomize.py").write_text("import gcbs_cli.system.version as v\nv.VERSION = '0.0.9'\n")
    return _with_a_node("version", f"export PYTHONPATH={other.resolve()}:{ROOT}")


def _with_a_node(name: str, first: str) -> bool:
    cluster = make_cluster(0)
    text = f"{first} && cd / && exec ray start --address {cluster.address} --num-cpus 2 --block"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
    node = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", text], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + LONGEST
        while _alive(cluster.address) < 2 and time.monotonic() < deadline:
            time.sleep(1.0)
        return judge(name, command("ray.npy", "--engine", "ray", "--address", cluster.address))
    finally:
        node.terminate()
        node.wait(LONGEST)
        cluster.shutdown()


def _alive(address: str) -> int:
    import ray

    ray.init(address=address, log_to_driver=False, configure_logging=False, ignore_reinit_error=True)
    nodes: list[dict[str, bool]] = ray.nodes()  # type: ignore[no-untyped-call]
    found = sum(node["Alive"] for node in nodes)
    ray.shutdown()
    return found


def head(count: int) -> bool:
    """The head dies in the middle of a plan, which says so in a line; with a new one the plan is the same."""
    cluster = make_cluster(1)
    process = command("ray.npy", "--engine", "ray", "--address", cluster.address)
    time.sleep(20.0)
    cluster.shutdown()
    good = judge("head killed", process)
    cluster = make_cluster(1)
    good &= judge("head started anew", command("ray.npy", "--engine", "ray", "--address", cluster.address))
    cluster.shutdown()
    return good


FAULTS: dict[str, Callable[[int], bool]] = {
    "kills": kills,
    "store": store,
    "folder": folder,
    "version": version,
    "head": head,
}


def make_inputs() -> None:
    """The data, and the plan of this machine alone."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS, DIM), np.float32)
    for side, values in (("x", x), ("y", x + rng.standard_normal(x.shape, np.float32))):
        np.save(f"{side}.npy", values)
    if any(command("local.npy").communicate()):
        raise SystemExit("no plan without Ray")


def main() -> int:
    """Run the parts that were asked for. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(FAULTS))
    parser.add_argument("--kills", type=int, default=20)
    asked = parser.parse_args()
    os.environ.update(SETTINGS)
    good = True
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as place:
        os.environ["RAY_TMPDIR"] = place  # the paths of its sockets must be short
        data = Path(place) / "data"
        data.mkdir()
        os.chdir(data)
        make_inputs()
        for part in asked.parts or FAULTS:
            good &= FAULTS[part](asked.kills)
        os.chdir(ROOT)
    return 0 if good else 1


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = str(ROOT)
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
