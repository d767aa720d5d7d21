"""Defaults of options from a file and from GCBS_* variables: found, checked, and named where they come from.

Precedence: the command line, then the environment, then the file.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gcbs_cli.settings.model import BadSetting, Leaf, Settings, leaves, nearest
from gcbs_cli.settings.plan import EXCLUSIVE
from gcbs_cli.system.errors import BadInput

PREFIX = "GCBS_"
OWN_VARIABLES = ("GCBS_CONFIG", "GCBS_AXE")
"""Variables that name no option: the file, and what the tests of the page need."""
HARMLESS = ("json", "quiet", "dry-run")
"""What a file found by searching may set of what one call does: it writes nothing."""
MOST_BYTES = 1 << 20
_LONG_KEY = re.compile(rb"""(?:^|[\[{,])[ \t]*(?:[\w"'-]+[ \t]*\.[ \t]*){100}""", re.MULTILINE)
"""A dotted key whose tables take the parser quadratic time and memory."""

Models = Mapping[str, type[Settings]]


@dataclass(frozen=True)
class Value:
    """A value and where it comes from: a file, a variable or the default."""

    value: Any
    source: str
    given: bool = True


@dataclass(frozen=True)
class ConfigFile:
    """A file of defaults, and its table of settings. `searched`: nobody named it."""

    path: Path | None
    table: dict[str, Any]
    searched: bool = False


def find_config(named: str | None) -> ConfigFile:
    """The file named, else the nearest pyproject.toml upwards that has [tool.gcbs]. Raises BadInput."""
    if named is not None:
        path = Path(named)
        table = _table(path, _read(path))
        if not isinstance(table, dict):
            raise BadInput(
                f"{path}: found no [tool.gcbs], expected settings; write them as in the docs, or leave out --config"
            )
        return ConfigFile(path, table)
    for folder in (here := Path.cwd(), *here.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            table = _table(path, _read(path))
            return ConfigFile(path, table, searched=True) if isinstance(table, dict) else ConfigFile(None, {})
    return ConfigFile(None, {})


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES or _LONG_KEY.search(data):
            raise BadInput(f"{path}: is longer or deeper than settings are (1 MiB, keys of 100 parts); check --config")
        return tomllib.loads(data.decode())
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file; check --config") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise BadInput(f"{path}: is nested too deeply, expected settings; check --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: is no TOML: {error}") from None


def _table(path: Path, content: dict[str, Any]) -> Any:
    """[tool.gcbs] of a pyproject.toml, and of any other file that has it; else the whole other file."""
    table = content.get("tool", {}).get("gcbs") if isinstance(content.get("tool", {}), dict) else None
    return table if table is not None or path.name == "pyproject.toml" else content


def build(
    model: type[Settings], defaults: Mapping[str, Value], typed: Mapping[str, Any]
) -> tuple[Settings, dict[str, Value]]:
    """The settings of one call, and which of the defaults it took. Raises BadInput that names where a bad value is."""
    taken = _over(defaults, typed)
    taken = {name: value for name, value in taken.items() if name not in typed}
    try:
        return model(**{name: value.value for name, value in taken.items()} | dict(typed)), taken
    except BadSetting as error:
        if error.leaf in taken:
            raise BadInput(f"{taken[error.leaf].source}: {error}") from None
        raise


def defaults_of(models: Models, file: ConfigFile, environment: Mapping[str, str]) -> dict[str, dict[str, Value]]:
    """For every command the options that the file or a variable sets. Raises BadInput for a key that none knows."""
    found = _from_file(models, file)
    return {
        command: _over(found[command], dict(_from_environment(command, model, environment)))
        for command, model in models.items()
    }


def _over(lower: Mapping[str, Value], higher: Mapping[str, Any]) -> dict[str, Any]:
    """Both, the higher where both say something; of options that exclude each other those of the higher alone."""
    hidden = set(EXCLUSIVE) if higher.keys() & set(EXCLUSIVE) else set()
    return {name: value for name, value in lower.items() if name not in hidden} | dict(higher)


def _from_file(models: Models, file: ConfigFile) -> dict[str, dict[str, Value]]:
    own = {key: value for key, value in file.table.items() if key in models and isinstance(value, dict)}
    shared = {_key(key): value for key, value in file.table.items() if key not in own}
    every = [leaf for model in models.values() for leaf in options_of(model)]
    for key in shared:
        if key not in {leaf.key for leaf in every if not leaf.one_call}:
            if key in {leaf.key for leaf in every}:
                raise BadInput(
                    f"{file.path}: found {key} for all commands, expected it in one's table, such as [tool.gcbs.plan]"
                )
            raise _unknown(str(file.path), key, [*(leaf.key for leaf in every), *models])
    found: dict[str, dict[str, Value]] = {}
    for command, model in models.items():
        options = {leaf.key: leaf for leaf in options_of(model)}
        found[command] = {options[k].name: Value(v, str(file.path)) for k, v in shared.items() if k in options}
        place = f"{file.path} [{command}]"
        for key, value in ((_key(key), value) for key, value in own.get(command, {}).items()):
            if key not in options:
                raise _unknown(place, key, list(options))
            if file.searched and options[key].one_call and key not in HARMLESS:
                raise BadInput(
                    f"{place}: sets {key}, which a file that nobody named may not; type --{key}, or name the file with "
                    "--config"
                )
            found[command][options[key].name] = Value(value, place)
    return found


def _from_environment(
    command: str, model: type[Settings], environment: Mapping[str, str]
) -> Iterator[tuple[str, Value]]:
    """GCBS_BATCH_SIZE for all commands, GCBS_PLAN_BATCH_SIZE for one, which wins."""
    for leaf in options_of(model):
        for name in _variables(command, leaf):
            if environment.get(name):
                yield leaf.name, Value(environment[name], name)
                break


def unknown_variables(models: Models, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """GCBS_* variables that name no option, each with the closest that does."""
    known = {
        name for command, model in models.items() for leaf in options_of(model) for name in _variables(command, leaf)
    }
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known and name not in OWN_VARIABLES:
            yield f"{name}: names no option{nearest(name, sorted(known))}"


def _variables(command: str, leaf: Leaf) -> list[str]:
    """The variables of an option, the one that wins first."""
    keys = [f"{command}-{leaf.key}"] if leaf.one_call else [f"{command}-{leaf.key}", leaf.key]
    return [PREFIX + key.replace("-", "_").upper() for key in keys]


def options_of(model: type[Settings]) -> list[Leaf]:
    """The options of a command, without its arguments."""
    return [leaf for leaf in leaves(model) if not leaf.typed.argument]


def _key(written: str) -> str:
    return written.replace("_", "-")


def _unknown(place: str, key: str, keys: list[str]) -> BadInput:
    return BadInput(f"{place}: found the unknown key {key!r}{nearest(key, keys)}; gcbs config --all shows all keys")
