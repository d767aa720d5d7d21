"""Which devices a name means: auto, cpu, cuda, cuda:1, cuda:0,1 or cuda:all; and the backend that serves them."""

import os
import re
from contextlib import suppress

from gcbs_cli.products.operations import Backend
from gcbs_cli.system.errors import BadInput

ALL_GPUS = "cuda:all"


def choose_backend(device: str, tile_rows: int | None = None) -> Backend:
    """The backend for `auto`, `cpu`, `cuda`, `cuda:i`, `cuda:i,j,...` or `cuda:all`; tile_rows: of each tile, if named.

    Raises BadInput for an unknown name and for a GPU that is not there.
    """
    devices = devices_named(device)
    backend: Backend
    if devices == ["cpu"]:
        from gcbs_cli.products.cpu import CpuBackend

        backend = CpuBackend()
    else:
        from gcbs_cli.products.torch_device import TorchBackend

        backend = TorchBackend(devices)
    backend.tile_rows = tile_rows
    return backend


def devices_named(name: str) -> list[str]:
    """The torch devices that a name means, in the order given, such as cuda:0 and cuda:1 for `cuda:0,1`.

    Raises BadInput for an unknown name, for a GPU that is not there and for one that is named twice.
    """
    if name == "cpu" or (name == "auto" and not (_nvidia_driver_present() and _cuda_device_count())):
        return ["cpu"]
    if not re.fullmatch("auto|cuda(:all|:[0-9]+(,[0-9]+)*)?", name):
        raise BadInput(f"--device {name}: expected auto, cpu, cuda, cuda:INDEX, cuda:0,1,... or {ALL_GPUS}")
    count = _cuda_device_count()
    indices = [int(text) for text in re.findall("[0-9]+", name)] or [0]
    if name == ALL_GPUS:
        indices = list(range(max(count, 1)))
    if max(indices) >= count or len(set(indices)) < len(indices):
        raise BadInput(
            f"--device {name}: PyTorch sees {count} GPUs here, numbered from 0; name each only once, or use "
            "--device cpu or auto"
        )
    return [f"cuda:{index}" for index in indices]


def warm_up(name: str) -> None:
    """Import torch, and make the contexts of the GPUs that a name means."""
    with suppress(BadInput):  # where the device is chosen it is raised again
        for device in devices_named(name):
            if device.startswith("cuda"):
                import torch

                torch.empty(1, device=device)


def _nvidia_driver_present() -> bool:
    """Whether a driver is loaded: looking costs nothing, importing torch to ask it costs a second."""
    return os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/dxg")


def _cuda_device_count() -> int:
    import torch

    return torch.cuda.device_count()
