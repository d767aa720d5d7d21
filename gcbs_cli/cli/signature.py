"""Build a Typer command from a settings model: an option for each field.

Typer takes every value as text; pydantic reads it, whether typed, set in a variable or written in a file, so that what
is wrong with it is said in the same words.
"""

import inspect
import os
from collections.abc import Iterable
from enum import Enum
from importlib import import_module
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from gcbs_cli.cli.defaults import build, defaults_of, find_config
from gcbs_cli.cli.edge import report_errors
from gcbs_cli.cli.output import say
from gcbs_cli.settings import others
from gcbs_cli.settings.model import Leaf, Settings, leaves

METAVARS = {int: "INTEGER", float: "NUMBER"}
"""What stands for a value in --help; TEXT where nothing is said."""


def model_of(name: str) -> type[Settings]:
    """The settings of a command."""
    model: type[Settings] = getattr(others, name.capitalize())
    return model


def make_command(name: str, commands: Iterable[str]) -> Any:
    """The command that reads the command line, variables and files into its model, and calls its function with it."""
    model = model_of(name)

    @report_errors
    def run(ctx: typer.Context, **typed: Any) -> None:
        sources = {key: getattr(ctx.get_parameter_source(key), "name", None) for key in typed}
        typed = {key: value for key, value in typed.items() if sources[key] == "COMMANDLINE"}
        file = find_config(ctx.obj)
        models = {key: model_of(key) for key in commands if key != "config"} if file.table else {}
        defaults = defaults_of({**models, name: model}, file, os.environ)[name]
        settings, taken = build(model, defaults, typed)
        used = sorted({value.source for value in taken.values() if value.source.startswith(str(file.path))})
        if used and not (typed.get("quiet") or typed.get("json_")):
            say(f"defaults from {' and '.join(used)}")
        work = getattr(import_module(f"gcbs_cli.cli.{name}"), name)
        work(settings, file) if name == "config" else work(settings)

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    run.__signature__ = inspect.Signature([context, *map(parameter, leaves(model))])  # type: ignore[attr-defined]
    app = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False, add_completion=False)
    settings = {"help_option_names": ["-h", "--help"]}
    app.command(name, help=_plain(_joined(inspect.getdoc(model) or "")), context_settings=settings)(run)
    return typer.main.get_command(app)


def parameter(leaf: Leaf) -> inspect.Parameter:
    """The Typer parameter of a field."""
    typed, kind = leaf.typed, leaf.kind
    names = [leaf.option, *([typed.short] if typed.short else [])]
    shown: Any = typed.default or leaf.default not in (None, "")
    shared: dict[str, Any] = {"help": _plain(leaf.help), "show_default": shown}
    default: Any = None if leaf.default is None or typed.default else leaf.default
    if typed.argument:
        shared["show_default"] = False
        annotation: Any = list[str] if leaf.many else str
        default = inspect.Parameter.empty if leaf.field.is_required() else None
        info: Any = typer.Argument(metavar=leaf.option, **shared)
    elif kind is bool:
        annotation = bool | None
        names[0] += f"/{typed.off}" if typed.off else ""
        shared["show_default"] = typed.default or bool(default)
        info = typer.Option(*names, rich_help_panel=leaf.panel, **shared)
    else:
        found = choices(leaf)
        annotation = list[str] | None if leaf.many else str | None
        if default is not None:
            default = [str(item) for item in default] if leaf.many else str(getattr(default, "value", default))
        metavar = typed.metavar or (f"[{'|'.join(found)}]" if found else METAVARS.get(element(kind), "TEXT"))
        complete = (lambda: found) if found else None
        info = typer.Option(*names, metavar=metavar, rich_help_panel=leaf.panel, autocompletion=complete, **shared)
    if leaf.field.is_required() and not typed.argument:
        shared["help"] += r" \[required]"
    return inspect.Parameter(
        leaf.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, info]
    )


def element(kind: Any) -> Any:
    """The plain type below a tuple or an annotation: `int` of `tuple[Annotated[int, ...], ...]`."""
    while get_origin(kind) in (tuple, Annotated):
        kind = get_args(kind)[0]
    return kind


def choices(leaf: Leaf) -> list[str]:
    """The values that a field takes, where they are few."""
    kind = element(leaf.kind)
    if get_origin(kind) is Literal:
        return list(get_args(kind))
    return [item.value for item in kind] if isinstance(kind, type) and issubclass(kind, Enum) else []


def _joined(text: str) -> str:
    """The text with one line for each paragraph; an example is one of its own."""
    return "\n\n".join(part if part.startswith(" ") else " ".join(part.split()) for part in text.split("\n\n"))


def _plain(text: str) -> str:
    """Text in which Rich finds no markup."""
    return text.replace("[", r"\[")
