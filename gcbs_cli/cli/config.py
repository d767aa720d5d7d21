"""`gcbs config`: the settings that count, and where each comes from."""

from typing import TYPE_CHECKING, Annotated

import typer

from gcbs_cli.cli import options
from gcbs_cli.cli.edge import at_the_edge

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gcbs_cli.cli.config_values import Value


@at_the_edge
def config(
    ctx: typer.Context,
    every: Annotated[bool, typer.Option("--all", help="Show the options that have their own default, too.")] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Show which settings count and where each comes from.

    Settings come from the command line, then GCBS_* variables, then --config FILE or the [tool.gcbs] table of the
    nearest pyproject.toml.

    Examples:

      gcbs config

      gcbs config --all --config gcbs.toml
    """
    from gcbs_cli.cli.config_values import unknown_variables
    from gcbs_cli.cli.configured import config_path, options_of, resolve_for
    from gcbs_cli.cli.output import Output, choose_mode

    assert ctx.parent is not None
    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    group = ctx.parent.command
    found, path = resolve_for(group, ctx.obj), config_path(ctx)
    for unknown in unknown_variables(options_of(group)):
        out.warning(unknown)
    shown = {
        command: {key: value for key, value in values.items() if every or value.given}
        for command, values in found.items()
    }
    out.table(_table(shown, None if path is None else str(path)))
    settings = {
        command: {key: {"value": value.value, "source": value.source} for key, value in values.items()}
        for command, values in shown.items()
    }
    out.result({"file": None if path is None else str(path), "settings": settings})


def _table(shown: "dict[str, dict[str, Value]]", path: str | None) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table

    where = f"file: {path}" if path else "file: none ([tool.gcbs] in pyproject.toml, or --config gcbs.toml)"
    if not any(shown.values()):
        return Group(where, "Every option has its own default.")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("option", no_wrap=True)
    for name in ("value", "from", "commands"):
        table.add_column(name, overflow="fold")
    for (key, value, source), commands in _merged(shown).items():
        table.add_row(key, value, source, ", ".join(commands))
    return Group(where, "", table)


def _merged(shown: "dict[str, dict[str, Value]]") -> dict[tuple[str, str, str], list[str]]:
    """Lines that commands share."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for command, values in shown.items():
        for key, value in values.items():
            text = "–" if value.value is None else str(value.value)
            lines.setdefault((key, text, value.source), []).append(command)
    return lines
