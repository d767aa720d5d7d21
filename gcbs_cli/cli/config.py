"""`gcbs config`: the settings that count, and where each comes from."""

import os
from typing import TYPE_CHECKING

from gcbs_cli.cli.app import COMMANDS
from gcbs_cli.cli.defaults import ConfigFile, Value, defaults_of, options_of, unknown_variables
from gcbs_cli.cli.output import Output
from gcbs_cli.cli.signature import model_of
from gcbs_cli.settings.others import Config

if TYPE_CHECKING:
    from rich.console import RenderableType


def config(settings: Config, file: ConfigFile) -> None:
    """Print the options of every command that a file or a variable sets, or all of them."""
    out, path = Output(settings), None if file.path is None else str(file.path)
    models = {name: model_of(name) for name in COMMANDS if name != "config"}
    for unknown in unknown_variables(models):
        out.warning(unknown)
    found = defaults_of(models, file, os.environ)
    shown: dict[str, dict[str, Value]] = {}
    for command, model in models.items():
        values = ((leaf, found[command].get(leaf.name)) for leaf in options_of(model))
        every = {leaf.key: value or Value(leaf.default, "default", given=False) for leaf, value in values}
        shown[command] = {key: value for key, value in every.items() if settings.all_ or value.given}
    out.table(_table(shown, path))
    plain = {
        command: {key: {"value": value.value, "source": value.source} for key, value in values.items()}
        for command, values in shown.items()
    }
    out.result({"file": path, "settings": plain})


def _table(shown: dict[str, dict[str, Value]], path: str | None) -> "RenderableType":
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


def _merged(shown: dict[str, dict[str, Value]]) -> dict[tuple[str, str, str], list[str]]:
    """Lines that commands share."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for command, values in shown.items():
        for key, value in values.items():
            text = "–" if value.value is None else str(value.value)
            lines.setdefault((key, text, value.source), []).append(command)
    return lines
