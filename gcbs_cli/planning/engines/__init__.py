"""Where the parts of a plan are planned: on this machine, or as tasks of a Ray cluster."""

from functools import partial

from gcbs_cli.planning.engines.local import plan_here
from gcbs_cli.planning.engines.part import Engine
from gcbs_cli.planning.engines.ray_engine import import_ray, plan_on_ray
from gcbs_cli.products.devices import devices_named, may_mean_several
from gcbs_cli.settings.plan import PlanWorkSettings
from gcbs_cli.system.errors import BadInput


def engine_of(work: PlanWorkSettings) -> Engine:
    """How parts are planned. Raises BadInput for devices that do not fit the engine, and where Ray is not installed."""
    several = may_mean_several(work.device)
    if work.engine == "local":
        return partial(plan_here, devices=devices_named(work.device) if several else [work.device])
    if several:
        raise BadInput(
            f"--device {work.device}: names GPUs of this machine; with --engine ray each part asks the cluster for one "
            "GPU, wherever it is: use --device cuda"
        )
    import_ray()
    return partial(plan_on_ray, address=work.address)
