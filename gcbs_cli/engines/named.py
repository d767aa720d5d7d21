"""The engine that a name and a device mean."""

from functools import partial

from gcbs_cli.engines.local import local_engine
from gcbs_cli.engines.ray_engine import import_ray, plan_on_ray
from gcbs_cli.errors import BadInput
from gcbs_cli.partitions.part_plan import Engine
from gcbs_cli.similarity.devices import may_mean_several

ENGINES = ("local", "ray")


def engine_named(name: str, address: str, device: str) -> Engine:
    """How parts are planned. Raises BadInput for another name, a device that does not fit it, and without Ray."""
    if name not in ENGINES:
        raise BadInput(f"--engine {name}: expected {' or '.join(ENGINES)}")
    if name == "local":
        return local_engine(device)
    if may_mean_several(device):
        raise BadInput(
            f"--device {device}: names GPUs of this machine; with --engine ray each part asks the cluster for one GPU, "
            "wherever it is: use --device cuda"
        )
    import_ray()
    return partial(plan_on_ray, address=address)
