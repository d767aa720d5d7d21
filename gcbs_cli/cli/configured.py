"""The group of commands that takes defaults from a file and the environment; --config before or after a command."""

import os
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperGroup

from gcbs_cli.cli.config_values import EXCLUSIVE, Commands, Option, Value, find_file, resolve
from gcbs_cli.cli.edge import at_the_edge
from gcbs_cli.system.errors import BadInput

CONFIG = "--config"
_WORDS_KEY = "gcbs.words"
_TYPE_NAMES = {int: "a whole number", float: "a number", bool: "true or false"}
_WORDS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


class ConfiguredGroup(TyperGroup):
    """Moves --config to the front, where the group reads it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, with --config FILE in whatever place."""
        ctx.meta[_WORDS_KEY] = args
        return super().parse_args(ctx, _config_first(args))


def _config_first(args: list[str]) -> list[str]:
    end = args.index("--") if "--" in args else len(args)
    for place, word in enumerate(args[:end]):
        if word == CONFIG and place + 1 < end:
            return [word, args[place + 1], *args[:place], *args[place + 2 :]]
        if word.startswith(f"{CONFIG}="):
            return [word, *args[:place], *args[place + 1 :]]
    return args


def options_of(group: Any) -> Commands:
    """The options of every command, by its name."""
    return {
        name: [_option(parameter) for parameter in command.params if _is_option(parameter)]
        for name, command in group.commands.items()
        if name != "config"
    }


def _is_option(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and parameter.name not in ("help", "config")


def _option(parameter: Any) -> Option:
    longest = max(parameter.opts, key=len)
    return Option(
        longest.removeprefix("--"),
        parameter.name,
        parameter.multiple,
        getattr(parameter.default, "value", parameter.default),
        (*parameter.opts, *parameter.secondary_opts),
    )


def resolve_for(group: Any, config: str | None) -> dict[str, dict[str, Value]]:
    """Every command's values by key. Raises BadInput."""
    return resolve(options_of(group), find_file(config), os.environ)


@at_the_edge
def take_defaults(ctx: typer.Context, config: str | None) -> None:
    """Make file and environment the defaults of the command that is about to run. Raises BadInput, as one line."""
    group: Any = ctx.command
    name = ctx.invoked_subcommand
    ctx.obj = config
    if name is None or name not in group.commands or name == "config":
        return
    given = {key: value for key, value in resolve_for(group, config)[name].items() if value.given}
    words = ctx.meta[_WORDS_KEY]
    options = {option.key: option for option in options_of(group)[name]}
    for keys in EXCLUSIVE:
        if any(_is_given(options[key], words) for key in keys if key in options):
            given = {key: value for key, value in given.items() if key not in keys}
    parameters = {parameter.name: parameter for parameter in group.commands[name].params}
    defaults = {}
    for key, value in given.items():
        option = options[key]
        defaults[option.parameter] = _checked(parameters[option.parameter], option, value)
    ctx.default_map = {name: defaults}


def _is_given(option: Option, words: list[str]) -> bool:
    return any(word == flag or word.startswith(f"{flag}=") for word in words for flag in option.flags)


def _checked(parameter: Any, option: Option, value: Value) -> Any:
    """The value as its option takes it. Raises BadInput that names the place it comes from."""
    kind = _element_type(parameter.type_descriptor.annotation)
    if not option.multiple:
        return _converted(kind, option, value, value.value)
    found = value.value if isinstance(value.value, list) else [value.value]
    return [_converted(kind, option, value, item) for item in found]


def _element_type(annotation: Any) -> type:
    """`int` of `int`, `int | None` and `list[int] | None`."""
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation
    return _element_type(next(part for part in get_args(annotation) if part is not type(None)))


def _converted(kind: type, option: Option, value: Value, item: Any) -> Any:
    """One value as `kind`: from a variable as text, from a file as TOML's own type."""
    choices = list(kind) if issubclass(kind, Enum) else []
    expected = f"one of {', '.join(choice.value for choice in choices)}" if choices else _TYPE_NAMES.get(kind, "a text")
    try:
        if choices:
            return kind(item).value
        if kind is bool:
            return _WORDS[item.lower()] if isinstance(item, str) else _only_bool(item)
        if isinstance(item, bool | list | dict) or (kind is int and isinstance(item, float)):
            raise ValueError
        return kind(item) if kind in _TYPE_NAMES else str(item)
    except (ValueError, KeyError):
        raise BadInput(f"{value.source}: found {option.key} = {item!r}, expected {expected}") from None


def _only_bool(item: Any) -> bool:
    if not isinstance(item, bool):
        raise ValueError
    return item


def config_path(ctx: typer.Context) -> Path | None:
    """The file that counts."""
    return find_file(ctx.obj)
