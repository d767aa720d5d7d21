"""`gcbs config`: the settings that count, and where each comes from."""

from typing import Any

from gcbs_cli.cli.app import COMMANDS
from gcbs_cli.cli.defaults import ConfigFile, Value, options_of, unknown_variables, values_of
from gcbs_cli.cli.output import Output, text_table
from gcbs_cli.settings.others import Config


def config(settings: Config, file: ConfigFile) -> None:
    """Print the options of every command that a file or a variable sets, or all of them."""
    out = Output(settings)
    for unknown in unknown_variables(COMMANDS):
        out.warn(unknown)
    shown: dict[str, dict[str, Any]] = {}
    lines: dict[tuple[str, str, str], list[str]] = {}
    for command in COMMANDS:
        found = values_of(command, file, {})
        shown[command] = {}
        for leaf in options_of(command):
            one = found.get(leaf.name, Value(leaf.default, "default"))
            if settings.all_ or leaf.name in found:
                shown[command][leaf.key] = vars(one)
                text = "–" if one.value is None else str(one.value)
                lines.setdefault((leaf.key, text, one.source), []).append(command)
    path = None if file.path is None else str(file.path)
    out.table(f"file: {path}" if path else "file: none ([tool.gcbs] in pyproject.toml, or --config gcbs.toml)")
    cells = [(*line, ", ".join(commands)) for line, commands in lines.items()]
    headings = ("option", "value", "from", "commands")
    out.table(text_table(cells, headings, "lfff") if cells else "Every option is at its default.")
    out.result({"file": path, "settings": shown})
