"""Defaults of options from a file and from GCBS_* variables, each with the place where it stands.

Precedence: the command line, then the environment, then the file; in each, a value for one command counts before one
for all commands.
"""

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gcbs_cli.settings.model import OUTPUT_PANEL, BadSetting, Leaf, Model, leaves
from gcbs_cli.settings.others import model_of
from gcbs_cli.system.errors import BadInput, nearest


@dataclass(frozen=True)
class Value:
    """A value and where it comes from: a file or a variable, or the command line, which is not named."""

    value: Any
    source: str = ""


def find_config() -> str | None:
    """The nearest pyproject.toml upwards that has [tool.gcbs]; None where there is none. Raises BadInput."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise BadInput("the current folder is gone; change to another one") from None
    for folder in (here, *here.parents):
        path = folder / "pyproject.toml"
        if path.is_file() and "gcbs" in _content(str(path)).get("tool", {}):
            return str(path)
    return None


def read_config(path: str | None) -> dict[str, Value]:
    """The values of a file by their keys: batch-size for all commands, plan.batch-size for one."""
    if path is None:
        return {}
    content = _content(path)
    values: dict[str, Value] = {}
    for name, value in content.get("tool", {}).get("gcbs", content).items():
        own = {f"{name}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        values |= {key.replace("_", "-"): Value(part, path) for key, part in own.items()}
    return values


def _content(path: str) -> dict[str, Any]:
    from gcbs_cli.data.files import open_file

    with open_file(path) as file:
        try:
            content = tomllib.load(file)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path}: is not TOML: {error}") from None
    tool = content.get("tool", {})
    if not isinstance(tool, dict) or not isinstance(tool.get("gcbs", {}), dict):
        raise BadInput(f"{path}: found tool or tool.gcbs with a value, expected the table [tool.gcbs]; correct it")
    return content


def build(model: type[Model], values: Mapping[str, Value]) -> Model:
    """The settings of one call. Raises BadInput that names where a bad value is."""
    try:
        settings = model(**{name: value.value for name, value in values.items()})
        settings.check_effects()
    except BadSetting as error:
        source = values[error.name].source if error.name in values else ""
        if not source:
            raise
        raise BadInput(f"{source}: {error}") from None
    return settings


def values_of(command: str, defaults: Mapping[str, Value]) -> dict[str, Value]:
    """The options of a command that the file or a variable sets, by their names in Python."""
    values: dict[str, Value] = {}
    for leaf in options_of(command):
        keys = keys_of(command, leaf)
        places = [defaults[key] for key in keys if key in defaults]
        for key in keys:
            variable = f"GCBS_{key}".replace(".", "_").replace("-", "_").upper()
            if os.environ.get(variable):
                places.append(Value(os.environ[variable], variable))
        if places:
            values[leaf.name] = places[-1]
    return values


def check_keys(commands: Iterable[str], defaults: Mapping[str, Value]) -> None:
    """Raises BadInput for a key of the file that names no option."""
    known = [key for command in commands for leaf in options_of(command) for key in keys_of(command, leaf)]
    for key, value in defaults.items():
        if key not in known:
            raise BadInput(f"{value.source}: found the unknown key {key!r}{nearest(key, known)}")


def keys_of(command: str, leaf: Leaf) -> tuple[str, str]:
    """The keys of an option: seed for all commands, then plan.seed for one."""
    return leaf.key, f"{command}.{leaf.key}"


def options_of(command: str) -> list[Leaf]:
    """The options of a command that may have another default: what one call reads, writes and prints is typed."""
    return [leaf for leaf in leaves(model_of(command)) if not leaf.argument and leaf.panel != OUTPUT_PANEL]
