"""`gcbs config`: the settings that count, and where each comes from."""

from typing import Any

from gcbs_cli.cli.app import COMMANDS
from gcbs_cli.cli.defaults import ConfigFile, Value, options_of, unknown_variables, values_of
from gcbs_cli.cli.output import Output, text_table
from gcbs_cli.settings.others import Config


def config(settings: Config, file: ConfigFile) -> None:
    """Print the options of every command that a file or a variable sets, or all of them."""
    out = Output(settings)
    for warning in unknown_variables(COMMANDS):
        out.warn(warning)
    record: dict[str, dict[str, Any]] = {}
    commands: dict[tuple[str, str, str], list[str]] = {}
    for command in COMMANDS:
        values = values_of(command, file, {})
        record[command] = {}
        for leaf in options_of(command):
            if settings.all_ or leaf.name in values:
                one = values.get(leaf.name, Value(leaf.default, "default"))
                record[command][leaf.key] = vars(one)
                text = "–" if one.value is None else str(one.value)
                commands.setdefault((leaf.key, text, one.source), []).append(command)
    path = None if file.path is None else str(file.path)
    out.table(f"file: {path or 'none ([tool.gcbs] in pyproject.toml, or --config gcbs.toml)'}")
    lines = [(*line, ", ".join(names)) for line, names in commands.items()]
    headings = ("option", "value", "from", "commands")
    out.table(text_table(lines, headings, "lfff") if lines else "Every option is at its default.")
    out.result({"file": path, "settings": record})
