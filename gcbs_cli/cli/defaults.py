"""Defaults of options from a file and from GCBS_* variables, each with the place where it stands.

Precedence: the command line, then the environment, then the file; in each, a value for one command counts before one
for all commands.
"""

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gcbs_cli.settings.model import OUTPUT_PANEL, BadSetting, Leaf, Model, leaves
from gcbs_cli.settings.others import model_of
from gcbs_cli.settings.plan import EXCLUSIVE
from gcbs_cli.system.errors import BadInput, nearest

PREFIX = "GCBS_"
OWN_VARIABLES = ("GCBS_CONFIG", "GCBS_AXE", "GCBS_TRACEBACK")
"""Variables that name no option: the file, what the tests of the page need, and whether errors show where."""


@dataclass(frozen=True)
class Value:
    """A value and where it comes from: a file, a variable, the default, or the command line, which is not named."""

    value: Any
    source: str = ""


@dataclass(frozen=True)
class ConfigFile:
    """A file of defaults: batch-size is its key for all commands, plan.batch-size for one."""

    path: Path | None = None
    values: dict[str, Value] = field(default_factory=dict)


def find_config(name: str | None) -> ConfigFile:
    """The file of this name, else the nearest pyproject.toml upwards that has [tool.gcbs]. Raises BadInput."""
    if name is not None:
        content = _read(Path(name))
        return _config_file(Path(name), _own_table(content) or content)
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise BadInput("the current folder is gone; change to another one") from None
    for path in (folder / "pyproject.toml" for folder in (here, *here.parents)):
        table = _own_table(_read(path)) if path.is_file() else None
        if table is not None:
            return _config_file(path, table)
    return ConfigFile()


def _read(path: Path) -> dict[str, Any]:
    from gcbs_cli.data.files import open_file

    with open_file(str(path)) as file:
        try:
            return tomllib.load(file)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"{path}: is not TOML: {error}") from None


def _own_table(content: Mapping[str, Any]) -> dict[str, Any] | None:
    table: dict[str, Any] | None = content.get("tool", {}).get("gcbs")
    return table


def _config_file(path: Path, table: Mapping[str, Any]) -> ConfigFile:
    values = {}
    for name, value in table.items():
        if isinstance(value, dict):
            for key, own in value.items():
                values[f"{name}.{key}".replace("_", "-")] = Value(own, f"{path} [{name}]")
        else:
            values[name.replace("_", "-")] = Value(value, str(path))
    return ConfigFile(path, values)


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


def values_of(command: str, file: ConfigFile, typed: Mapping[str, Any]) -> dict[str, Value]:
    """The options of a command that the file, a variable or its command line sets, by their names in Python."""
    known = known_keys([command])
    variables = {key: Value(os.environ[variable(key)], variable(key)) for key in known if os.environ.get(variable(key))}
    layers = [
        {leaf.name: source[key] for key, leaf in known.items() if key in source and ("." in key) is of_command}
        for source in (file.values, variables)
        for of_command in (False, True)
    ]
    values: dict[str, Value] = {}
    for layer in (*layers, {name: Value(value) for name, value in typed.items()}):
        # Of options that exclude each other, the last one counts.
        excluded = EXCLUSIVE if layer.keys() & set(EXCLUSIVE) else ()
        values = {name: value for name, value in values.items() if name not in excluded} | layer
    return values


def check_keys(commands: Iterable[str], file: ConfigFile) -> None:
    """Raises BadInput for a key of the file that names no option."""
    known = known_keys(commands)
    for key, value in file.values.items():
        if key not in known:
            raise BadInput(
                f"{value.source}: found the unknown key {key!r}{nearest(key, known)}; gcbs config --all shows all keys"
            )


def unknown_variables(commands: Iterable[str]) -> Iterator[str]:
    """GCBS_* variables that name no option, each with the closest that does."""
    known = sorted(map(variable, known_keys(commands)))
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in (*known, *OWN_VARIABLES):
            yield f"{name}: names no option{nearest(name, known)}"


def known_keys(commands: Iterable[str]) -> dict[str, Leaf]:
    """The options of commands by their keys: seed for all commands, plan.seed for one."""
    known: dict[str, Leaf] = {}
    for command in commands:
        for leaf in options_of(command):
            known |= {leaf.key: leaf, f"{command}.{leaf.key}": leaf}
    return known


def variable(key: str) -> str:
    """The variable for a key: GCBS_PLAN_BATCH_SIZE for plan.batch-size."""
    return PREFIX + key.replace(".", "_").replace("-", "_").upper()


def options_of(command: str) -> list[Leaf]:
    """The options of a command that may have another default: what one call reads, writes and prints is typed."""
    return [leaf for leaf in leaves(model_of(command)) if not leaf.argument and leaf.panel != OUTPUT_PANEL]
