"""`gcbs doctor`: versions, devices with the rates they reach, memory, and optional packages."""

import platform
from typing import Any

from gcbs_cli import __version__
from gcbs_cli.cli.output import Output, record_table
from gcbs_cli.settings.others import Doctor
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.limits import SHARE_TO_USE, available_cpus, available_memory
from gcbs_cli.system.version import installed

LIBRARIES = ("numpy", "scipy", "torch", "numba", "pyarrow", "pydantic", "typer")
OPTIONAL = ("pymetis", "ray", "fsspec", "sentence-transformers")
_CPU_SIZE = 768
_GPU_SIZE = 4096
GIB = 2**30


def doctor(settings: Doctor) -> None:
    """Examine the machine, and print what it has."""
    out = Output(settings)
    machine = examine()
    if settings.rows is not None:
        machine["plan"] = forecast(settings.rows, settings.dim)
    out.table(record_table(machine))
    out.result(machine)


def examine() -> dict[str, Any]:
    """The machine and its libraries.

    cpus: those that this process may use. devices: with their free memory, and 10⁹ floating-point operations a second
    of square products, two a multiply-add, in the type that the device multiplies in. optional: None for what is not
    installed.
    """
    import torch

    names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return {
        "gcbs": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": available_cpus(),
        "libraries": {name: installed(name) for name in LIBRARIES},
        "optional": {name: installed(name) for name in OPTIONAL},
        **{name: _device(name) for name in names},
    }


def forecast(rows: int, dim: int) -> dict[str, Any]:
    """About how many entries above the quantile and how much memory a plan takes; `fits` in what is free here."""
    from gcbs_cli.planning.memory import forecast_plan
    from gcbs_cli.products.devices import choose_backend

    settings = PlanSettings()
    expected = forecast_plan(rows, dim, settings, choose_backend("cpu"))
    return {
        "rows": rows,
        "dim": dim,
        "quantile": settings.requested_quantile(rows),
        "entries": expected.entries,
        "gib": expected.bytes / GIB,
        "fits": expected.bytes <= SHARE_TO_USE * available_memory(),
    }


def _device(name: str) -> dict[str, Any]:
    import torch
    from torch.utils.benchmark import Timer

    if name == "cpu":
        model = platform.processor() or platform.machine()
        free = available_memory()
        dtype, size = "float32", _CPU_SIZE
    else:
        model = torch.cuda.get_device_name(name)
        free, _ = torch.cuda.mem_get_info(name)
        dtype, size = "bfloat16", _GPU_SIZE
    left = torch.ones((size, size), dtype=getattr(torch, dtype), device=name)
    product = "torch.mm(left, left)[0, 0].item()"  # an entry is read so that the device is waited for
    timer = Timer(product, globals={"left": left}, num_threads=torch.get_num_threads())
    gflops = 2 * size**3 / timer.blocked_autorange().median / 1e9
    return {"model": model, "free_gib": free / GIB, "dtype": dtype, "gflops": gflops}
