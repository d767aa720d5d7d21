"""What this machine offers to gcbs: versions, devices with the rates they reach, memory, and optional packages."""

import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from gcbs_cli import __version__
from gcbs_cli.system.limits import SHARE_TO_USE, available_cpus, available_memory

if TYPE_CHECKING:
    import torch

LIBRARIES: Final = ("numpy", "scipy", "torch", "numba", "pyarrow", "pydantic", "typer")
OPTIONAL: Final = {
    "pymetis": "METIS partitions",
    "ray": "plans in parts on a cluster",
    "fsspec": "remote paths",
    "sentence-transformers": "gcbs embed",
}
"""Packages, and what they are for."""
_CPU_SIZE: Final = 768
_GPU_SIZE: Final = 4096


def examine(seconds: float = 1.0) -> dict[str, Any]:
    """Everything that is found, as JSON has it; the product rates take about `seconds` in all.

    `cpus`: those that this process may use; memory in bytes; rates in 10⁹ floating-point operations a second, two a
    multiply-add; `optional`: the version is None where a package is not installed.
    """
    import torch

    names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return {
        "gcbs": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "libraries": {name: version(name) for name in LIBRARIES},
        "cpus": available_cpus(),
        "devices": [_device(name, seconds / (2 * len(names))) for name in names],
        "optional": [{"name": name, "version": _installed(name), "used_for": use} for name, use in OPTIONAL.items()],
    }


def forecast_plan(rows: int, dim: int, quantile: float) -> dict[str, Any]:
    """Entries above the quantile and bytes at the peak of a plan; `fits` in the memory that is free here."""
    from gcbs_cli.planning.room import Forecast, needed
    from gcbs_cli.products.devices import choose_backend

    expected = Forecast(needed(rows, dim, choose_backend("cpu")), round((1.0 - quantile) * rows**2))
    fits = expected.memory <= SHARE_TO_USE * available_memory()
    found = {"entries": expected.entries, "memory": expected.memory, "fits": fits}
    return {"rows": rows, "dim": dim, "quantile": quantile, **found}


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device(name: str, seconds: float) -> dict[str, Any]:
    import torch

    if name == "cpu":
        model = platform.processor() or platform.machine()
        free = memory = available_memory()
    else:
        model = torch.cuda.get_device_name(name)
        free, memory = torch.cuda.mem_get_info(name)
    found = {"name": name, "model": model, "memory": memory, "free_memory": free}
    rates = {"fp32_gflops": torch.float32, "bf16_gflops": torch.bfloat16}
    return found | {rate: _rate(name, dtype, seconds) for rate, dtype in rates.items()}


def _rate(name: str, dtype: "torch.dtype", seconds: float) -> float | None:
    """10⁹ operations a second of square products; None where the device has no such products."""
    import torch

    size = _CPU_SIZE if name == "cpu" else _GPU_SIZE
    done, began = -1, 0.0  # the first product is not counted
    try:
        left = torch.ones((size, size), dtype=dtype, device=name)
        while done < 1 or time.perf_counter() - began < seconds:
            torch.mm(left, left)
            if left.is_cuda:
                torch.cuda.synchronize(left.device)
            done += 1
            began = began or time.perf_counter()
    except RuntimeError:
        return None
    return done * 2 * size**3 / (time.perf_counter() - began) / 1e9
