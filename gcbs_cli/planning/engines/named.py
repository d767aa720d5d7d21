"""The engine that a name, an address and a device mean."""

from dataclasses import dataclass
from functools import partial

from gcbs_cli.planning.engines.local import local_engine
from gcbs_cli.planning.engines.ray_engine import STORE, TRANSPORTS, import_ray, plan_on_ray
from gcbs_cli.planning.parts.part_plan import Engine
from gcbs_cli.products.devices import may_mean_several
from gcbs_cli.system.errors import BadInput

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class EngineChoice:
    """Where parts are planned: `local`, or `ray` at an address, rows sent through its store or read at a path."""

    name: str = "local"
    address: str = "auto"
    transport: str = STORE

    def on(self, device: str) -> Engine:
        """How parts are planned. Raises BadInput for other names, for what does not fit the engine, and without Ray."""
        if self.name not in ENGINES:
            raise BadInput(f"--engine {self.name}: expected {' or '.join(ENGINES)}")
        if self.transport not in TRANSPORTS:
            raise BadInput(f"--transport {self.transport}: expected {' or '.join(TRANSPORTS)}")
        if self.name == "local":
            if self != EngineChoice():
                raise BadInput("--address, --transport: are of a cluster and go with --engine ray")
            return local_engine(device)
        if may_mean_several(device):
            raise BadInput(
                f"--device {device}: names GPUs of this machine; with --engine ray each part asks the cluster for one "
                "GPU, wherever it is: use --device cuda"
            )
        import_ray()
        return partial(plan_on_ray, address=self.address, transport=self.transport)
