"""`gcbs doctor`: what this machine offers."""

from typing import TYPE_CHECKING

from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import two_columns
from gcbs_cli.doctor import Machine, PlanForecast, examine, forecast_plan
from gcbs_cli.settings.others import Doctor
from gcbs_cli.system.limits import show_size

if TYPE_CHECKING:
    from rich.console import RenderableType


def doctor(settings: Doctor) -> None:
    """Examine the machine, and print what was found."""
    out = Output(settings.shown)
    machine = examine(settings.seconds)
    expected = None if settings.rows is None else forecast_plan(settings.rows, settings.dim, settings.quantile)
    out.table(_tables(machine, expected))
    forecast = None if expected is None else expected.model_dump(mode="json")
    out.result({**machine.model_dump(mode="json"), "forecast": forecast})


def _tables(machine: Machine, expected: PlanForecast | None) -> "RenderableType":
    from rich.console import Group

    lines = [("gcbs", f"{machine.gcbs}, Python {machine.python}, {machine.system}")]
    lines.append(("libraries", ", ".join(f"{name} {number}" for name, number in machine.libraries.items())))
    for device in machine.devices:
        half = "none" if device.bf16_gflops is None else f"{device.bf16_gflops:,.0f}"
        cpus = f", {machine.cpus} CPUs" if device.name == "cpu" else ""
        lines.append((device.name, f"{device.model}{cpus}, {show_size(device.free_memory)} free"))
        lines.append(("", f"{device.fp32_gflops:,.0f} GFLOP/s in float32, {half} in bfloat16"))
    for package in machine.optional:
        lines.append((package.name, package.version or f"not installed ({package.used_for})"))
    parts: list[RenderableType] = [two_columns(lines)]
    if expected is not None:
        parts += ["", _forecast(expected)]
    return Group(*parts)


def _forecast(expected: PlanForecast) -> "RenderableType":
    fits = "" if expected.fits else "; more than is free here: take a higher --quantile or fewer rows"
    lines = [
        ("plan of", f"{expected.rows:,} pairs × {expected.dim} at quantile {expected.quantile:g}"),
        ("entries", f"about {expected.entries:,} above it"),
        ("memory", f"about {show_size(expected.memory)}{fits}"),
    ]
    return two_columns(lines)
