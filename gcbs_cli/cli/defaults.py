"""Defaults of options from a file and from GCBS_* variables: found, checked, and named where they come from.

Precedence: the command line, then the environment, then the file; in each, what is said for one command alone counts
before what is said for all.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gcbs_cli.settings.model import BadSetting, Leaf, Model, leaves
from gcbs_cli.settings.others import model_of
from gcbs_cli.settings.plan import EXCLUSIVE
from gcbs_cli.system.errors import BadInput, nearest

PREFIX = "GCBS_"
OWN_VARIABLES = ("GCBS_CONFIG", "GCBS_AXE", "GCBS_TRACEBACK")
"""Variables that name no option: the file, what the tests of the page need, and whether errors show where."""
HARMLESS = ("json", "quiet", "dry-run")
"""What a file found by searching may set of what one call does: it writes nothing."""
MOST_BYTES = 1 << 20
LONG_KEY = re.compile(rb"""(?:^|[\[{,])[ \t]*(?:[\w"'-]+[ \t]*\.[ \t]*){100}""", re.MULTILINE)
"""A dotted key whose tables take the parser quadratic time and memory."""


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
    searched: bool = False
    """Nobody named it."""


def find_config(named: str | None) -> ConfigFile:
    """The file named, else the nearest pyproject.toml upwards that has [tool.gcbs]. Raises BadInput."""
    try:
        here = Path.cwd()
    except FileNotFoundError:
        raise BadInput("the current folder is gone; change to another one") from None
    searched = (folder / "pyproject.toml" for folder in (here, *here.parents))
    path = Path(named) if named is not None else next(filter(Path.is_file, searched), None)
    if path is None:
        return ConfigFile()
    content = _read(path)
    tools = content.get("tool")
    table = tools.get("gcbs") if isinstance(tools, dict) else None
    if table is None and path.name != "pyproject.toml":
        table = content
    if isinstance(table, dict):
        return ConfigFile(path, dict(_values(table, str(path))), searched=named is None)
    if named is None:
        return ConfigFile()
    raise BadInput(f"{path}: found no [tool.gcbs], expected settings; write them as in the docs, or leave out --config")


def _read(path: Path) -> dict[str, Any]:
    from gcbs_cli.data.files import open_file

    with open_file(str(path), empty=True) as file:
        data = file.read(MOST_BYTES + 1)
    try:
        if len(data) <= MOST_BYTES and not LONG_KEY.search(data):
            return tomllib.loads(data.decode())
    except RecursionError:
        raise BadInput(f"{path}: is nested too deeply, expected settings; check --config") from None
    except ValueError as error:
        raise BadInput(f"{path}: is not TOML: {error}") from None
    raise BadInput(f"{path}: is too large for settings (1 MiB, or keys of 100 parts); check --config")


def _values(table: Mapping[str, Any], path: str) -> Iterator[tuple[str, Value]]:
    for name, value in table.items():
        if isinstance(value, dict):
            for key, own in value.items():
                yield f"{name}.{key}".replace("_", "-"), Value(own, f"{path} [{name}]")
        else:
            yield name.replace("_", "-"), Value(value, path)


def build(model: type[Model], said: Mapping[str, Value]) -> Model:
    """The settings of one call. Raises BadInput that names where a bad value is."""
    try:
        settings = model(**{name: value.value for name, value in said.items()})
        settings.check_effects()
        return settings
    except BadSetting as error:
        source = said[error.leaf].source if error.leaf in said else ""
        if source:
            raise BadInput(f"{source}: {error}") from None
        raise


def values_of(command: str, file: ConfigFile, typed: Mapping[str, Any]) -> dict[str, Value]:
    """The options of a command that the file, a variable or its command line sets, by their names in Python.

    Of options that exclude each other, those count that are said last.
    """
    known = known_keys([command])
    variables = {key: Value(os.environ[name], name) for key in known if os.environ.get(name := variable(key))}
    layers = [
        {leaf.name: values[key] for key, leaf in known.items() if key in values and ("." in key) is own}
        for values in (file.values, variables)
        for own in (False, True)  # the keys for all commands, then those for this one
    ]
    found: dict[str, Value] = {}
    for layer in (*layers, {name: Value(value) for name, value in typed.items()}):
        hidden = EXCLUSIVE if layer.keys() & set(EXCLUSIVE) else ()
        found = {name: value for name, value in found.items() if name not in hidden} | layer
    return found


def check_keys(commands: Iterable[str], file: ConfigFile) -> None:
    """Raises BadInput for a key of the file that names no option, or one that nobody may set there."""
    known = known_keys(commands)
    for key, value in file.values.items():
        leaf = known.get(key)
        if leaf is None:
            raise BadInput(
                f"{value.source}: found the unknown key {key!r}{nearest(key, known)}; gcbs config --all shows all keys"
            )
        if file.searched and leaf.one_call and leaf.key not in HARMLESS:
            raise BadInput(
                f"{value.source}: only a file named with --config may set {key}; type {leaf.option}, or name this file"
            )


def unknown_variables(commands: Iterable[str]) -> Iterator[str]:
    """GCBS_* variables that name no option, each with the closest that does."""
    known = sorted(map(variable, known_keys(commands)))
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in (*known, *OWN_VARIABLES):
            yield f"{name}: names no option{nearest(name, known)}"


def known_keys(commands: Iterable[str]) -> dict[str, Leaf]:
    """The options of commands by their keys: plan.seed for one, seed for all unless it says what one call does."""
    found = {}
    for command in commands:
        for leaf in options_of(command):
            found[f"{command}.{leaf.key}"] = leaf
            if not leaf.one_call:
                found[leaf.key] = leaf
    return found


def variable(key: str) -> str:
    """The variable for a key: GCBS_PLAN_BATCH_SIZE for plan.batch-size."""
    return PREFIX + key.replace(".", "_").replace("-", "_").upper()


def options_of(command: str) -> list[Leaf]:
    """The options of a command, without its arguments."""
    return [leaf for leaf in leaves(model_of(command)) if not leaf.argument]
