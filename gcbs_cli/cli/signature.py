"""Build a Typer command from a settings model: an option for each field.

Typer takes every value as text; pydantic reads it, whether typed, set in a variable or written in a file, so that what
is wrong with it is said in the same words.
"""

import gc
import inspect
import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer

from gcbs_cli.cli.defaults import Value, build, check_keys, find_config, read_config, values_of
from gcbs_cli.cli.output import Output
from gcbs_cli.settings.model import Leaf, leaves
from gcbs_cli.settings.others import model_of

METAVARS = {bool: "", int: "INTEGER", float: "NUMBER", str: "TEXT"}
"""What stands for a value in --help."""


def make_command(name: str, commands: Mapping[str, str]) -> Any:
    """The command that reads the command line, variables and files into its model, and calls its function with it."""
    model = model_of(name)

    def run(**parameters: Any) -> None:
        config = parameters["config"] or os.environ.get("GCBS_CONFIG") or find_config()
        defaults = read_config(config)
        check_keys(commands, defaults)
        typed = {key: Value(value) for key, value in (parameters | {"config": config}).items() if value is not None}
        settings = build(model, values_of(name, defaults) | typed)
        if defaults:
            Output(settings).note(f"defaults from {config}")
        work = getattr(import_module(f"gcbs_cli.cli.{name}"), name)
        if not gc.isenabled():  # main() disabled it
            gc.freeze()  # or each search for garbage would go through all that was imported
            gc.enable()
        work(settings)

    run.__signature__ = inspect.Signature(list(map(parameter, leaves(model))))  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    app.command(name, help=f"{commands[name]}\n\n{inspect.getdoc(model)}")(run)
    return typer.main.get_command(app)


def parameter(leaf: Leaf) -> inspect.Parameter:
    """The Typer parameter of a field."""
    annotation: Any = bool if leaf.kind is bool else list[str] if leaf.many else str
    info: Any
    if leaf.argument:
        default = ... if leaf.field.is_required() else None
        info = typer.Argument(default, metavar=leaf.option, help=leaf.help)
    else:
        name = f"{leaf.option}/{leaf.off}" if leaf.off else leaf.option
        info = typer.Option(
            None,
            *filter(None, [name, leaf.short]),
            help=leaf.help,
            metavar=leaf.metavar or METAVARS.get(leaf.kind, f"[{'|'.join(leaf.choices)}]"),
            rich_help_panel=leaf.panel,
        )
    return inspect.Parameter(leaf.name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=annotation)
