"""`gcbs doctor`: what this machine offers."""

from collections.abc import Iterator
from typing import Any

from gcbs_cli.cli.output import Output, text_table
from gcbs_cli.doctor import examine, forecast_plan
from gcbs_cli.settings.others import Doctor
from gcbs_cli.system.limits import show_size


def doctor(settings: Doctor) -> None:
    """Examine the machine, and print what was found."""
    out = Output(settings)
    rows = settings.rows
    forecast = None if rows is None else forecast_plan(rows, settings.dim, settings.quantile)
    found = examine(settings.seconds) | {"forecast": forecast}
    out.table(text_table(_lines(found)))
    out.result(found)


def _lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "gcbs", f"{found['gcbs']}, Python {found['python']}, {found['system']}, {found['cpus']} CPUs"
    yield "libraries", ", ".join(f"{name} {number}" for name, number in found["libraries"].items())
    for device in found["devices"]:
        rates = (device["fp32_gflops"], device["bf16_gflops"])
        fp32, bf16 = ("none" if rate is None else f"{rate:,.0f}" for rate in rates)
        yield device["name"], f"{device['model']}, {show_size(device['free_memory'])} free"
        yield "", f"{fp32} GFLOP/s in float32, {bf16} in bfloat16"
    for package in found["optional"]:
        yield package["name"], package["version"] or f"not installed ({package['used_for']})"
    if (plan := found["forecast"]) is not None:
        yield "plan of", f"{plan['rows']:,} pairs × {plan['dim']} at quantile {plan['quantile']:g}"
        yield "entries", f"about {plan['entries']:,} above it"
        advice = "" if plan["fits"] else "; more than is free here: take a higher --quantile or fewer rows"
        yield "memory", f"about {show_size(plan['memory'])}{advice}"
