"""Parts as tasks of a Ray cluster. Ray schedules, restarts and moves them; a lost worker costs only its own tasks.

The rows of a part go through Ray's object store, put there from this process: they outlive every worker. Or each task
reads them itself, from files that all nodes see. A task has no side effects, and its plan depends on its rows and
settings alone, so one that runs twice gives the same order.
"""

import platform
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.engines.part import PartPlan, PartTask, ReadPart, plan_part
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.progress import Progress

RETRIES = 8
"""How often a task that lost its worker is begun again."""
IN_FLIGHT_PER_CPU = 2
"""Parts in the object store at once, for each core of the cluster."""


def plan_on_ray(
    tasks: Iterable[PartTask],
    read: ReadPart,
    progress: Progress,
    address: str = "auto",
    transport: str = "store",
    cpus: float = 1.0,
) -> Iterator[PartPlan]:
    """The plans of the parts, as they are done; `cpus`: cores that a part takes of the cluster.

    `transport`: how rows get to the tasks: `store` reads them here and puts them into the object store; with `path` the
    tasks call `read`, which then reads files that every node sees under the same name.
    Raises BadInput where Ray is not installed or there is no cluster, and GcbsError where a task lost all its workers.
    """
    ray = import_ray()
    began_here = connect(ray, address)
    try:
        yield from _dealt(ray, tasks, read, progress, transport, cpus)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise cause if isinstance(cause, GcbsError) else GcbsError(f"--engine ray: a task failed: {cause!r}") from error
    except ray.exceptions.RayError as error:
        raise GcbsError(f"--engine ray: {str(error).splitlines()[0]}; see the cluster's dashboard or logs") from error
    finally:
        if began_here:
            ray.shutdown()


def import_ray() -> Any:
    """Ray. Raises BadInput where it is not installed."""
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise BadInput("--engine ray: Ray is not installed; pip install 'gcbs[ray]'") from error
    return ray


def connect(ray: Any, address: str) -> bool:
    """Connect to a cluster that is there; whether this call did it. Raises BadInput where there is none."""
    if ray.is_initialized():
        return False
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:160]
        raise BadInput(
            f"--address {address}: no Ray cluster answers ({reason}); start one with  ray start --head"
        ) from error
    return True


def _dealt(
    ray: Any, tasks: Iterable[PartTask], read: ReadPart, progress: Progress, transport: str, cpus: float
) -> Iterator[PartPlan]:
    # No retry_exceptions: what a part's rows do not allow, they will not allow the next time.
    options: dict[str, Any] = {"num_cpus": cpus, "max_retries": RETRIES}
    remote = ray.remote(plan_task if transport == "store" else plan_task_from_path)
    most = max(2, int(IN_FLIGHT_PER_CPU * ray.cluster_resources().get("CPU", 1.0) / cpus))
    under_way: list[Any] = []
    done = total = 0
    for task in tasks:
        total = task.parts
        if task.settings.work.device.startswith("cuda"):
            options["num_gpus"] = 1
            task = replace(task, settings=task.settings.changed(device="cuda"))
        begin = remote.options(**options, name=f"gcbs part {task.number}").remote
        under_way.append(begin(task, read(task.number) if transport == "store" else read))
        while len(under_way) >= most:
            yield _next(ray, under_way)
            done += 1
            progress.progress(done, total)
    while under_way:
        yield _next(ray, under_way)
        done += 1
        progress.progress(done, total)


def _next(ray: Any, under_way: list[Any]) -> PartPlan:
    ready, _ = ray.wait(under_way, num_returns=1)
    under_way.remove(ready[0])
    found: PartPlan = ray.get(ready[0])
    return found


def plan_task(task: PartTask, rows: PairedRows) -> PartPlan:
    """What a worker runs; arrays from the object store are read-only and stay there."""
    return plan_part(task, rows)


def plan_task_from_path(task: PartTask, read: ReadPart) -> PartPlan:
    """What a worker runs that reads the rows itself. Raises GcbsError where its node does not see the files."""
    try:
        rows = read(task.number)
    except (OSError, ValueError) as error:
        raise GcbsError(
            f"--transport path: {error} on {platform.node()}; write to a folder that every node of the cluster sees "
            "under the same name, or leave out --transport"
        ) from error
    return plan_part(task, rows)
