"""`gcbs doctor`: versions, devices with the rates they reach, memory, and optional packages."""

import platform
from collections.abc import Iterator
from typing import Any

from gcbs_cli import __version__
from gcbs_cli.cli.output import Output, text_table
from gcbs_cli.settings.others import Doctor
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.limits import SHARE_TO_USE, available_cpus, available_memory, show_size
from gcbs_cli.system.version import installed

LIBRARIES = ("numpy", "scipy", "torch", "numba", "pyarrow", "pydantic", "typer")
OPTIONAL = {
    "pymetis": "METIS partitions",
    "ray": "plans in parts on a cluster",
    "fsspec": "remote paths",
    "sentence-transformers": "gcbs embed",
}
"""Packages, and what they are for."""
_CPU_SIZE = 768
_GPU_SIZE = 4096


def doctor(settings: Doctor) -> None:
    """Examine the machine, and print what it has."""
    out = Output(settings)
    forecast = None
    if settings.rows is not None:
        forecast = forecast_memory(settings.rows, settings.dim)
    machine = examine(settings.seconds) | {"forecast": forecast}
    out.table(text_table(_lines(machine)))
    out.result(machine)


def _lines(machine: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "gcbs", f"{machine['gcbs']}, Python {machine['python']}, {machine['system']}, {machine['cpus']} CPUs"
    yield "libraries", ", ".join(f"{name} {number}" for name, number in machine["libraries"].items())
    for device in machine["devices"]:
        yield device["name"], f"{device['model']}, {show_size(device['free_memory'])} free"
        yield "", f"{device['gflops']:,.0f} GFLOP/s in {device['dtype']}"
    for name, version in machine["optional"].items():
        yield name, version or f"not installed ({OPTIONAL[name]})"
    plan = machine["forecast"]
    if plan is not None:
        yield "plan of", f"{plan['rows']:,} pairs × {plan['dim']} at quantile {plan['quantile']:.6g}"
        yield "entries", f"about {plan['entries']:,} above it"
        advice = "" if plan["fits"] else "; more than is free here: use a higher --quantile or --partitions"
        yield "memory", f"about {show_size(plan['memory'])}{advice}"


def examine(seconds: float) -> dict[str, Any]:
    """The machine and its libraries, as JSON has them; measuring the rates takes about `seconds` in all.

    `cpus`: those that this process may use; memory in bytes; `gflops`: 10⁹ floating-point operations a second of
    square products, two a multiply-add, in the type that the device multiplies in; `optional`: the version is None
    where a package is not installed.
    """
    import torch

    names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return {
        "gcbs": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "libraries": {name: installed(name) for name in LIBRARIES},
        "cpus": available_cpus(),
        "devices": [_device(name, seconds / len(names)) for name in names],
        "optional": {name: installed(name) for name in OPTIONAL},
    }


def forecast_memory(rows: int, dim: int) -> dict[str, Any]:
    """About how many entries above the quantile and bytes a plan takes; `fits` in the memory that is free here."""
    from gcbs_cli.planning.memory import entries_by_quantile, forecast_plan
    from gcbs_cli.products.devices import choose_backend

    settings = PlanSettings()
    expected = forecast_plan(rows, dim, settings, choose_backend("cpu"), entries_by_quantile(rows, settings))
    return {
        "rows": rows,
        "dim": dim,
        "quantile": settings.requested_quantile(rows),
        "entries": expected.entries,
        "memory": expected.bytes,
        "fits": expected.bytes <= SHARE_TO_USE * available_memory(),
    }


def _device(name: str, seconds: float) -> dict[str, Any]:
    import torch
    from torch.utils.benchmark import Timer

    if name == "cpu":
        model = platform.processor() or platform.machine()
        free = memory = available_memory()
        dtype, size = "float32", _CPU_SIZE
    else:
        model = torch.cuda.get_device_name(name)
        free, memory = torch.cuda.mem_get_info(name)
        dtype, size = "bfloat16", _GPU_SIZE
    left = torch.ones((size, size), dtype=getattr(torch, dtype), device=name)
    product = "torch.mm(left, left)[0, 0].item()"  # an entry is read so that the device is waited for
    timer = Timer(product, globals={"left": left}, num_threads=torch.get_num_threads())
    return {
        "name": name,
        "model": model,
        "memory": memory,
        "free_memory": free,
        "dtype": dtype,
        "gflops": 2 * size**3 / timer.blocked_autorange(min_run_time=seconds).median / 1e9,
    }
