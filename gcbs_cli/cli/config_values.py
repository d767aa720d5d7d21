"""Defaults of options from a file and from GCBS_* variables: found, checked, and told where they come from.

Precedence: the command line, then the environment, then the file.
"""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from gcbs_cli.system.errors import BadInput

PREFIX: Final = "GCBS_"
OWN_VARIABLES: Final = ("GCBS_CONFIG", "GCBS_AXE")
"""Variables that name no option: the file, and what the tests of the page need."""

PER_COMMAND: Final = ("output", "html", "report", "force", "json", "quiet", "dry-run", "perm")
"""Options that say what one call does; a default for all commands at once would surprise."""

EXCLUSIVE: Final = (("quantile", "per-row", "threshold"),)
"""Of these the one from the highest place counts, and the others from lower places are left out."""

_SIMILAR: Final = 0.5
MOST_BYTES: Final = 1 << 20
_LONG_KEY: Final = re.compile(rb"""(?:^|[\[{,])[ \t]*(?:[\w"'-]+[ \t]*\.[ \t]*){100}""", re.MULTILINE)
"""A dotted key whose tables take the parser quadratic time and memory."""


@dataclass(frozen=True)
class Option:
    """An option of a command: `key` in a file ("batch-size"), its parameter, and its default."""

    key: str
    parameter: str
    multiple: bool
    default: Any
    flags: tuple[str, ...]


Commands = Mapping[str, Sequence[Option]]


@dataclass(frozen=True)
class Value:
    """A value and where it comes from: a file, a variable or the default."""

    value: Any
    source: str
    given: bool = True


def find_file(named: str | None) -> Path | None:
    """The file: the one named, else the nearest pyproject.toml upwards that has [tool.gcbs]."""
    if named is not None:
        return Path(named)
    for folder in (here := Path.cwd(), *here.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return path if _table(path, _read(path)) is not None else None
    return None


def read_file(path: Path | None) -> dict[str, Any]:
    """Its table of settings, {} without a file. Raises BadInput that names the file."""
    if path is None:
        return {}
    table = _table(path, _read(path))
    if not isinstance(table, dict):
        raise BadInput(
            f"{path}: found no [tool.gcbs], expected settings; write them as in the docs, or leave out --config"
        )
    return table


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


def resolve(commands: Commands, file: Path | None, environment: Mapping[str, str]) -> dict[str, dict[str, Value]]:
    """For every command the value of every option, by key. Raises BadInput for a key that no command knows."""
    layers = [_from_file(commands, file), _from_environment(commands, environment)]
    return {
        command: {**{o.key: Value(o.default, "default", given=False) for o in options}, **_merged(command, layers)}
        for command, options in commands.items()
    }


def _merged(command: str, layers: Sequence[dict[str, dict[str, Value]]]) -> dict[str, Value]:
    merged: dict[str, Value] = {}
    for layer in layers:
        found = layer.get(command, {})
        for group in EXCLUSIVE:
            if any(key in found for key in group):
                merged = {key: value for key, value in merged.items() if key not in group}
        merged |= found
    return merged


def _from_file(commands: Commands, path: Path | None) -> dict[str, dict[str, Value]]:
    table = read_file(path)
    found: dict[str, dict[str, Value]] = {command: {} for command in commands}
    own = {key: value for key, value in table.items() if key in commands and isinstance(value, dict)}
    shared = {_key(key): value for key, value in table.items() if key not in own}
    for key, value in shared.items():
        known = _shared_keys(commands)
        if key not in known:
            raise _unknown(str(path), key, [*known, *commands], commands)
        for command, options in commands.items():
            if any(option.key == key for option in options):
                found[command][key] = Value(value, str(path))
    for command, settings in own.items():
        keys = [option.key for option in commands[command]]
        for key, value in ((_key(key), value) for key, value in settings.items()):
            if key not in keys:
                raise _unknown(f"{path} [{command}]", key, keys, commands)
            found[command][key] = Value(value, f"{path} [{command}]")
    return found


def _from_environment(commands: Commands, environment: Mapping[str, str]) -> dict[str, dict[str, Value]]:
    """GCBS_BATCH_SIZE for all commands, GCBS_PLAN_BATCH_SIZE for one, which wins."""
    found: dict[str, dict[str, Value]] = {}
    for command, options in commands.items():
        found[command] = {}
        for option in options:
            names = [variable(f"{command}-{option.key}")]
            if option.key not in PER_COMMAND:
                names.append(variable(option.key))
            name = next((name for name in names if environment.get(name)), None)
            if name is not None:
                text = environment[name]
                found[command][option.key] = Value(text.split() if option.multiple else text, name)
    return found


def unknown_variables(commands: Commands, environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """GCBS_* variables that name no option, each with the closest that does."""
    known = {variable(key) for key in _shared_keys(commands)} | set(OWN_VARIABLES)
    known |= {variable(f"{command}-{option.key}") for command, options in commands.items() for option in options}
    for name in sorted(environment):
        if name.startswith(PREFIX) and name not in known:
            yield f"{name}: names no option{_closest(name, sorted(known))}"


def variable(key: str) -> str:
    """`batch-size` → `GCBS_BATCH_SIZE`."""
    return PREFIX + key.replace("-", "_").upper()


def _shared_keys(commands: Commands) -> list[str]:
    keys = dict.fromkeys(option.key for options in commands.values() for option in options)
    return [key for key in keys if key not in PER_COMMAND]


def _key(written: str) -> str:
    return written.replace("_", "-")


def _unknown(place: str, key: str, keys: Sequence[str], commands: Commands) -> BadInput:
    if key in PER_COMMAND and any(option.key == key for options in commands.values() for option in options):
        return BadInput(f"{place}: found {key} for all commands, expected it in one's table, such as [tool.gcbs.plan]")
    return BadInput(f"{place}: found the unknown key {key!r}{_closest(key, keys)}; gcbs config --all shows all keys")


def _closest(name: str, names: Sequence[str]) -> str:
    close = get_close_matches(name, names, 1, _SIMILAR)
    return f"; did you mean {close[0]}?" if close else ""
