"""Where the parts of a plan are planned: in this process, one after the other, or as tasks of a Ray cluster."""

from functools import partial

from gcbs_cli.planning.engines.local import local_engine
from gcbs_cli.planning.engines.part import Engine
from gcbs_cli.planning.engines.ray_engine import import_ray, plan_on_ray
from gcbs_cli.products.devices import may_mean_several
from gcbs_cli.settings.plan import PlanWorkSettings
from gcbs_cli.system.errors import BadInput


def engine_of(work: PlanWorkSettings) -> Engine:
    """How parts are planned. Raises BadInput for devices that do not fit the engine, and where Ray is not installed."""
    if work.engine == "local":
        return local_engine(work.device)
    if may_mean_several(work.device):
        raise BadInput(
            f"--device {work.device}: names GPUs of this machine; with --engine ray each part asks the cluster for one "
            "GPU, wherever it is: use --device cuda"
        )
    import_ray()
    return partial(plan_on_ray, address=work.address, transport=work.transport)
