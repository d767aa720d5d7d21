"""`gcbs config`: the settings that count, and where each comes from."""

from typing import Any

from gcbs_cli.cli.app import COMMANDS
from gcbs_cli.cli.defaults import options_of, read_config, values_of
from gcbs_cli.cli.output import Output, text_table
from gcbs_cli.settings.others import Config


def config(settings: Config) -> None:
    """Print the options of every command that a file or a variable sets."""
    out = Output(settings)
    defaults = read_config(settings.config)
    record: dict[str, dict[str, Any]] = {}
    lines = []
    for command in COMMANDS:
        values = values_of(command, defaults)
        options = {leaf.key: values[leaf.name] for leaf in options_of(command) if leaf.name in values}
        record[command] = {key: vars(value) for key, value in options.items()}
        lines += [(command, key, str(value.value), value.source) for key, value in options.items()]
    out.table(f"file: {settings.config or 'none ([tool.gcbs] in pyproject.toml, or --config gcbs.toml)'}")
    out.table(text_table(lines, ("command", "option", "value", "from")))
    out.result({"file": settings.config, "settings": record})
