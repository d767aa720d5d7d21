"""What this machine offers to gcbs: versions, devices with the rates they reach, memory, and optional packages."""

import platform
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict

from gcbs_cli import __version__
from gcbs_cli.system.errors import BadInput
from gcbs_cli.system.limits import SHARE_TO_USE, available_cpus, available_memory

if TYPE_CHECKING:
    import torch

LIBRARIES: Final = ("numpy", "scipy", "torch", "numba", "pyarrow", "pydantic", "typer")
OPTIONAL: Final = {
    "pymetis": ("pymetis", "METIS partitions"),
    "ray": ("ray", "plans in parts on a cluster"),
    "fsspec": ("fsspec", "remote paths"),
    "sentence_transformers": ("sentence-transformers", "gcbs embed"),
}
"""Module, package and what it is for."""
_CPU_SIZE: Final = 768
_GPU_SIZE: Final = 4096


class _Found(BaseModel):
    model_config = ConfigDict(frozen=True)


class Device(_Found):
    """A device and its rates in 10⁹ floating-point operations a second (two a multiply-add), memory in bytes."""

    name: str
    model: str
    memory: int
    free_memory: int
    fp32_gflops: float
    bf16_gflops: float | None


class Optional(_Found):
    """An optional package: its version, None where it is not installed."""

    name: str
    version: str | None
    used_for: str


class Machine(_Found):
    """Everything that was found; `cpus` is the number that this process may use."""

    gcbs: str
    python: str
    system: str
    libraries: dict[str, str]
    cpus: int
    devices: list[Device]
    optional: list[Optional]


class PlanForecast(_Found):
    """Entries above the quantile and bytes at the peak of a plan; `fits` in the memory that is free here."""

    rows: int
    dim: int
    quantile: float
    entries: int
    memory: int
    fits: bool


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


def forecast_plan(rows: int, dim: int, quantile: float) -> PlanForecast:
    """Say what a plan of so many pairs finds and needs. Raises BadInput for sizes that make no sense."""
    from gcbs_cli.planning.room import Forecast, needed
    from gcbs_cli.products.devices import choose_backend

    if rows < 2:
        raise BadInput(f"--rows {rows}: expected at least 2")
    if dim < 1:
        raise BadInput(f"--dim {dim}: expected at least 1")
    if not 0.0 < quantile < 1.0:
        raise BadInput(f"--quantile {quantile}: expected a number between 0 and 1, such as 0.999")
    expected = Forecast(needed(rows, dim, choose_backend("cpu")), round((1.0 - quantile) * rows**2))
    fits = expected.memory <= SHARE_TO_USE * available_memory()
    return PlanForecast(
        rows=rows, dim=dim, quantile=quantile, entries=expected.entries, memory=expected.memory, fits=fits
    )


def _installed(module: str, package: str) -> str | None:
    try:
        return version(package) if find_spec(module) is not None else None
    except PackageNotFoundError:
        return "unknown version"


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
        _multiply(left)
    except RuntimeError:
        return None
    done, began = 0, time.perf_counter()
    while done == 0 or time.perf_counter() - began < seconds:
        _multiply(left)
        done += 1
    return done * 2 * size**3 / (time.perf_counter() - began) / 1e9


def _multiply(left: "torch.Tensor") -> None:
    import torch

    torch.mm(left, left)
    if left.is_cuda:
        torch.cuda.synchronize(left.device)
