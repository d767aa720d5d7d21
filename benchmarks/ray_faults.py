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
import re
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
LAST_WORDS = "The program will terminate."
"""Ray's own, in the line that names the head that it lost, before it ends the process."""
RAYS = re.compile(r"\[\d{4}-.*:info_message:")
"""Lines of Ray's core on stderr, which nobody can turn off."""
PLAN = ["plan", "x.npy", "y.npy", "-k", "32", "--partitions", str(PARTS), "-q", "--force", "-o"]


def command(*words: str, **variables: str) -> subprocess.Popen[str]:
    """Start `gcbs plan` in the current folder."""
    call = [sys.executable, "-m", "gcbs_cli", *PLAN, *words]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.Popen(call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def judge(name: str, process: "subprocess.Popen[str]") -> bool:
    """Whether a command ended with the plan of this machine alone, or with none and one line; prints which."""
    try:
        _, said = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        print(f"{name}: no end after {LONGEST:.0f} s", flush=True)
        return False
    lines, output = said.splitlines(), Path("ray.npy")
    same = output.exists() and output.read_bytes() == Path("local.npy").read_bytes()
    own = [line for line in lines if line.endswith(LAST_WORDS) or not RAYS.match(line)]
    told = len(own) == 1 and (own[0].startswith("gcbs: ") or own[0].endswith(LAST_WORDS))
    good = same if process.returncode == 0 else told and not output.exists()
    print(f"{name}: {'same bytes' if same else f'{process.returncode} {said.strip()[-400:]}'}", flush=True)
    output.unlink(missing_ok=True)
    return good and (process.returncode != 0 or not lines)


def make_cluster(nodes: int, num_cpus: int = 1) -> Any:
    """A head with so many cores, and so many nodes of one core."""
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    cluster.add_node(**NODE | {"num_cpus": num_cpus}, _system_config=DEATHS)
    for _ in range(nodes):
        cluster.add_node(**NODE)
    cluster.wait_for_nodes(timeout=LONGEST)
    return cluster


def kills(count: int) -> bool:
    """So many plans in this process, in each of which a node dies at a random moment."""
    import ray

    from gcbs_cli.data.opening import open_pair
    from gcbs_cli.data.reading import PairStream
    from gcbs_cli.planning.parts.plan import plan_in_parts
    from gcbs_cli.planning.parts.ray_engine import plan_on_ray
    from gcbs_cli.settings.plan import PlanSettings
    from gcbs_cli.system.errors import GcbsError

    cluster, moments, lasts = make_cluster(2), random.Random(1), 10.0
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
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
    """All planning on a node that has an empty folder where the data lies."""
    if os.geteuid() != 0:
        print("folder: not root, who alone can hide it")
        return True
    hide = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
done = libc.unshare(0x20000), libc.mount(b"none", b"/", None, 0x44000, None)  # a mount space of its own, private
if any(done) or libc.mount(b"none", b"{os.getcwd()}", b"tmpfs", 0, None):
    raise SystemExit("the folder cannot be hidden")
"""
    return _on_another_node("folder", hide) == 0


def version(count: int) -> bool:
    """All planning on a node whose gcbs says that it is another."""
    return _on_another_node("version", "import gcbs_cli.system.version as v\nv.VERSION = '0.0.9'\n") == 2


def _on_another_node(name: str, begins: str) -> int | None:
    """The exit code of a plan whose workers begin with these lines, None where it ended in another way."""
    cluster = _cluster_of(name, begins)
    process = command("ray.npy", "--engine", "ray", "--address", cluster.address)
    good = judge(name, process)
    cluster.shutdown()
    return process.returncode if good else None


def _cluster_of(name: str, begins: str) -> Any:
    """A head that plans nothing, and a node whose workers begin with these lines."""
    there = Path(name)
    there.mkdir(exist_ok=True)
    (there / "sitecustomize.py").write_text(begins)
    cluster = make_cluster(0, num_cpus=0)
    cluster.add_node(**NODE, env_vars={"PYTHONPATH": f"{there.resolve()}:{ROOT}"})
    cluster.wait_for_nodes(timeout=LONGEST)
    return cluster


def head(count: int) -> bool:
    """The head, or its server alone, dies before a part is done, and a line says it; a new one gives the same plan."""
    good = True
    for whole in (True, False):
        cluster = _cluster_of(
            "head", "import sys, time\nif 'default_worker' in str(sys.orig_argv):\n    time.sleep(40)\n"
        )
        process = command("ray.npy", "--engine", "ray", "--address", cluster.address)
        time.sleep(15.0)
        if whole:
            cluster.shutdown()
        else:
            cluster.head_node.kill_gcs_server()
        good &= judge("head killed" if whole else "its server killed", process) and process.returncode != 0
        cluster.shutdown()
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
