"""Versions, devices with the rates they reach, memory, and which optional packages are there."""

import platform
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from gcbs_cli import __version__
from gcbs_cli.system.limits import available_cpus, available_memory

if TYPE_CHECKING:
    import torch

LIBRARIES: Final = ("numpy", "scipy", "torch", "numba", "pyarrow", "pydantic", "typer")
OPTIONAL: Final = {
    "triton": ("triton", "quicker passes on GPUs"),
    "pymetis": ("pymetis", "METIS partitions"),
    "ray": ("ray", "passes on a cluster"),
    "faiss": ("faiss-cpu", "approximate neighbours"),
    "fsspec": ("fsspec", "remote paths"),
    "sentence_transformers": ("sentence-transformers", "gcbs embed"),
}
"""Module, package and what it is for."""
_CPU_SIZE: Final = 768
_GPU_SIZE: Final = 4096


class Device(BaseModel):
    """A device and its rates in 10⁹ floating-point operations a second (two a multiply-add), memory in bytes."""

    model_config = ConfigDict(frozen=True)

    name: str
    model: str
    memory: int
    free_memory: int
    fp32_gflops: float
    bf16_gflops: float | None


class Optional(BaseModel):
    """An optional package: its version, None where it is not installed."""

    model_config = ConfigDict(frozen=True)

    name: str
    version: str | None
    used_for: str


class Machine(BaseModel):
    """Everything that was found; `cpus` is the number that this process may use."""

    model_config = ConfigDict(frozen=True)

    gcbs: str
    python: str
    system: str
    libraries: dict[str, str]
    cpus: int
    devices: list[Device]
    optional: list[Optional]


def examine(seconds: float = 1.0) -> Machine:
    """Look around; the product rates take about `seconds` in all."""
    import torch

    names = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    each = seconds / (2 * len(names))
    return Machine(
        gcbs=__version__,
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        libraries={name: version(name) for name in LIBRARIES},
        cpus=available_cpus(),
        devices=[_device(name, each) for name in names],
        optional=[Optional(name=p, version=_installed(m, p), used_for=text) for m, (p, text) in OPTIONAL.items()],
    )


def _installed(module: str, package: str) -> str | None:
    if module in sys.modules or find_spec(module) is not None:
        try:
            return version(package)
        except PackageNotFoundError:
            return "unknown version"
    return None


def _device(name: str, seconds: float) -> Device:
    import torch

    if name == "cpu":
        model, memory = platform.processor() or platform.machine(), available_memory()
        free = memory
    else:
        model = torch.cuda.get_device_name(name)
        free, memory = torch.cuda.mem_get_info(name)
    return Device(
        name=name,
        model=model,
        memory=memory,
        free_memory=free,
        fp32_gflops=_rate(name, torch.float32, seconds) or 0.0,
        bf16_gflops=_rate(name, torch.bfloat16, seconds),
    )


def _rate(name: str, dtype: "torch.dtype", seconds: float) -> float | None:
    """10⁹ operations a second of square products; None where the device has no such products."""
    import torch

    size = _CPU_SIZE if name == "cpu" else _GPU_SIZE
    try:
        left = torch.ones((size, size), dtype=dtype, device=name)
        torch.mm(left, left)
        _wait(name)
    except RuntimeError:
        return None
    done, began = 0, time.perf_counter()
    while done == 0 or time.perf_counter() - began < seconds:
        torch.mm(left, left)
        _wait(name)
        done += 1
    return done * 2 * size**3 / (time.perf_counter() - began) / 1e9


def _wait(name: str) -> None:
    import torch

    if name != "cpu":
        torch.cuda.synchronize(name)
