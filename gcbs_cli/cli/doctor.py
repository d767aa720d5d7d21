"""`gcbs doctor`: what this machine offers."""

from typing import TYPE_CHECKING, Annotated

import typer

from gcbs_cli.cli import options
from gcbs_cli.cli.edge import at_the_edge

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gcbs_cli.doctor import Machine, PlanForecast

FORECAST_PANEL = "Forecast of a plan"


@at_the_edge
def doctor(
    rows: Annotated[
        int | None,
        typer.Option("--rows", help="Forecast a plan of so many pairs.", rich_help_panel=FORECAST_PANEL),
    ] = None,
    dim: Annotated[
        int, typer.Option("--dim", help="Dimensions of the embeddings.", rich_help_panel=FORECAST_PANEL)
    ] = 384,
    quantile: Annotated[
        float, typer.Option("--quantile", help="Quantile of the plan.", rich_help_panel=FORECAST_PANEL)
    ] = 0.999,
    seconds: Annotated[float, typer.Option("--seconds", help="Time to measure rates for.")] = 1.0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show versions, devices and their speed, memory, optional packages, and what a plan would take.

    Examples:

      gcbs doctor

      gcbs doctor --rows 1000000 --dim 768
    """
    from gcbs_cli.cli.output import Output, choose_mode
    from gcbs_cli.doctor import examine, forecast_plan

    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    machine = examine(seconds)
    expected = None if rows is None else forecast_plan(rows, dim, quantile)
    out.table(_tables(machine, expected))
    forecast = None if expected is None else expected.model_dump(mode="json")
    out.result({**machine.model_dump(mode="json"), "forecast": forecast})


def _tables(machine: "Machine", expected: "PlanForecast | None") -> "RenderableType":
    from rich.console import Group

    from gcbs_cli.cli.tables import two_columns
    from gcbs_cli.system.limits import show_size

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


def _forecast(expected: "PlanForecast") -> "RenderableType":
    from gcbs_cli.cli.tables import two_columns
    from gcbs_cli.system.limits import show_size

    fits = "" if expected.fits else "; more than is free here: take a higher --quantile or fewer rows"
    lines = [
        ("plan of", f"{expected.rows:,} pairs × {expected.dim} at quantile {expected.quantile:g}"),
        ("entries", f"about {expected.entries:,} above it"),
        ("memory", f"about {show_size(expected.memory)}{fits}"),
    ]
    return two_columns(lines)
