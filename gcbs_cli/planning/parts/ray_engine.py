"""Parts as tasks of a Ray cluster. Ray schedules, restarts and moves them; a lost worker costs only its own tasks.

The rows of a part go through Ray's object store, put there from this process: they outlive every worker. A task has no
side effects, and its plan depends on its rows and settings alone, so one that runs twice gives the same order.
"""

import logging
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from itertools import islice
from typing import Any

from gcbs_cli.data.files import one_line
from gcbs_cli.planning.parts.part import PartTask, ReadPart, plan_part
from gcbs_cli.planning.plan import PlanResult
from gcbs_cli.system.errors import BadInput, GcbsError
from gcbs_cli.system.version import required

RETRIES = 8
"""How often a task that lost its worker is begun again."""
IN_FLIGHT_PER_CPU = 2
"""Parts in the object store at once, for each core of the cluster."""


def plan_on_ray(tasks: Sequence[PartTask], read: ReadPart, address: str) -> Iterator[PlanResult]:
    """The plans of the parts, in their order: each takes one core of the cluster, or one GPU with --device cuda.

    Raises BadInput where Ray is not installed or there is no cluster, and GcbsError where a task lost all its workers.
    """
    ray = required("ray", "--engine ray", "ray")
    try:
        with connected(ray, address):
            yield from _planned(ray, tasks, read)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, GcbsError):
            raise error.cause from error
        raise GcbsError(f"--engine ray: a task failed: {error.cause!r}") from error
    except ray.exceptions.RayError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise GcbsError(f"--engine ray: {reason}; see the cluster's dashboard or logs") from error


@contextmanager
def connected(ray: Any, address: str) -> Iterator[None]:
    """Connect to a cluster for the time of the block, unless this process is connected already.

    Raises BadInput where there is none.
    """
    if ray.is_initialized():
        yield
        return
    logging.getLogger("ray").setLevel(logging.WARNING)  # or it tells, even with -q, where it put its token
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = one_line(error)
        raise BadInput(f"--address {address}: no Ray cluster answers ({reason}); try --address local") from error
    try:
        # Ray tells of lost nodes on stdout, which may carry the permutation.
        with redirect_stdout(sys.stderr):
            yield
    finally:
        ray.shutdown()


def _planned(ray: Any, tasks: Sequence[PartTask], read: ReadPart) -> Iterator[PlanResult]:
    # No retry_exceptions: what a part's rows do not allow, they will not allow the next time.
    remote = ray.remote(max_retries=RETRIES, num_cpus=1)(plan_part)

    def begin(task: PartTask) -> Any:
        on_gpu = task.settings.device.startswith("cuda")
        if on_gpu:
            task = replace(task, settings=task.settings.changed(device="cuda"))
        return remote.options(num_gpus=int(on_gpu), name=f"gcbs part {task.number}").remote(task, read(task.number))

    references = map(begin, tasks)  # lazy: the rows of a part are read when its task begins
    cores = ray.cluster_resources().get("CPU", 1.0)
    under_way = deque(islice(references, max(2, int(IN_FLIGHT_PER_CPU * cores))))
    while under_way:
        yield ray.get(under_way.popleft())
        under_way.extend(islice(references, 1))
