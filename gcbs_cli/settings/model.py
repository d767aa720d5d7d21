"""One model a command: each field is an option with its name, type, bounds, default, help and panel."""

import ast
import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from gcbs_cli.system.errors import BadInput, nearest, printable

OUTPUT_PANEL = "Output"
Model = TypeVar("Model", bound="Settings")
Function = TypeVar("Function", bound=Callable[..., Any])
_WORDS_OF = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
_EXPECTED = {
    "finite": "a finite number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "path": "text",
    "too": "at least one",
}
"""What pydantic's kinds of errors expect, by their first word; where nothing is said, a whole number."""


def option(default: Any, description: str | None = None, short: str | None = None, **more: Any) -> Any:
    """A field with its default (... for none) and its help, which may stand in the docstring below it instead.

    more: what else `Leaf` holds, and pydantic's bounds.
    """
    typed = {name: more.pop(name) for name in Leaf.__dataclass_fields__ if name in more}
    return Field(default, description=description, json_schema_extra=typed | {"short": short}, **more)


@dataclass(frozen=True)
class Leaf:
    """One option and how it is typed on the command line.

    name: in Python. model: the class that declares it. panel: title of its panel in --help. option: its name on the
    command line, where no other is given --its-name, an argument's in capitals. short: another name, such as -k. off:
    the flag that says no, such as --no-refine. default_words: the default in words, where the field holds None.
    metavar: what stands for the value in --help. argument: no option but an argument. only_with: other fields, `field`
    or `field=value|value`, without which it has no effect. expected: what it takes, where its type and bounds do not
    say it. one_call: it says what one call does, as outputs do; a default for all commands would surprise.
    """

    name: str
    field: FieldInfo
    model: "type[Settings]"
    panel: str | None
    option: str
    short: str | None = None
    off: str | None = None
    default_words: str | None = None
    metavar: str | None = None
    argument: bool = False
    only_with: str | None = None
    expected: str | None = None
    one_call: bool = False

    @property
    def help(self) -> str:
        """What it does, in a sentence or two."""
        said = self.field.description or _docstrings(self.model.__module__).get((self.model.__name__, self.name), "")
        return " ".join(said.split())

    @property
    def key(self) -> str:
        """Its name in a file of defaults."""
        return self.option.removeprefix("--")

    @property
    def default(self) -> Any:
        """The default; None where there is none."""
        return None if self.field.is_required() else self.field.get_default()

    @property
    def kind(self) -> Any:
        """The type of one value: `int` of `tuple[Annotated[int, ...], ...]` and of `int | None`."""
        kind = self.field.annotation
        while get_origin(kind) in (Union, UnionType, Annotated, tuple):
            kind = get_args(kind)[0]
        return kind

    @property
    def choices(self) -> list[str]:
        """The values that it takes, where they are few."""
        return list(get_args(self.kind))

    @property
    def many(self) -> bool:
        """Whether the option may be given several times."""
        return get_args(self.field.annotation)[-1:] == (...,)


class BadSetting(BadInput):
    """A value that does not fit; `leaf` is the name of its field, or "" where several do not fit together."""

    def __init__(self, message: str, leaf: str) -> None:
        super().__init__(message)
        self.leaf = leaf


class Settings(BaseModel):
    """Settings that cannot change and take no unknown names; values that do not fit raise BadInput in one line.

    A model inherits the options of others: a plan's settings are those of its graph, too.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)
    panel: ClassVar[str | None]
    omitted: ClassVar[tuple[str, ...]] = ()
    """Fields that a command inherits and does not offer."""

    def __init_subclass__(cls, panel: str | None = None, **config: Any) -> None:
        """panel: title in --help of the panel with the options that this class declares."""
        cls.panel = panel

    def __init__(self, **values: Any) -> None:
        # True and false as words: pydantic would take them for 1 and 0 where it expects a number.
        plain = {name: str(value).lower() if isinstance(value, bool) else value for name, value in values.items()}
        try:
            super().__init__(**plain)
        except ValidationError as error:
            raise in_words(error, type(self)) from None

    def changed(self, **changes: Any) -> Self:
        """The same with other values for these options, checked again. Raises BadInput."""
        return type(self)(**self.model_dump(exclude_unset=True) | changes)

    def default_of(self, leaf: Leaf) -> Any:
        """What an option is unless given, which another option may decide."""
        return leaf.default

    def chosen(self) -> Mapping[str, Sequence[Any]]:
        """Values that the command sets for other options."""
        return {}

    def check_effects(self) -> None:
        """Raises BadSetting for an option without effect beside the others."""
        for leaf in leaves(type(self)):
            lacking = self.lacking(leaf)
            if lacking is not None and getattr(self, leaf.name) != self.default_of(leaf):
                raise BadSetting(f"{leaf.option} has no effect without {lacking}", leaf.name)

    def lacking(self, leaf: Leaf) -> str | None:
        """What an option lacks to have an effect, as it is typed; None where it has one."""
        for condition in (leaf.only_with or "").split():
            name, _, values = condition.partition("=")
            found, wanted = self.chosen().get(name) or listed(getattr(self, name)), values.split("|")
            if not any(value in wanted if values else value for value in found):
                return f"--{name.replace('_', '-')} {', '.join(wanted)}".rstrip()
        return None

    def only(self, model: type[Model]) -> Model:
        """Those of the settings that the model has, too."""
        return model(**self.model_dump(include={*model.model_fields}, exclude_unset=True, exclude_none=True))


def leaves(model: type[Settings]) -> list[Leaf]:
    """Every option of a model: those that it declares, then those that it inherits, the panel of outputs last."""
    found: dict[str, Leaf] = {}
    for base in model.__mro__:
        for name in inspect.get_annotations(base):
            if name in model.model_fields and name not in (*model.omitted, *found):
                found[name] = _leaf(name, model.model_fields[name], base)
    return sorted(found.values(), key=lambda leaf: leaf.panel == OUTPUT_PANEL)


@functools.cache
def _docstrings(module: str) -> dict[tuple[str, str], str]:
    """What stands below the fields of a module's classes, by class and field; nothing where its source is not kept."""
    try:
        found, nodes = {}, ast.parse(inspect.getsource(sys.modules[module])).body
    except OSError:
        return {}
    for model in (node for node in nodes if isinstance(node, ast.ClassDef)):
        for field, below in pairwise(model.body):
            if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
                found[model.name, ast.unparse(field.target)] = ast.literal_eval(below.value)
    return found


def _leaf(name: str, field: FieldInfo, model: type[Settings]) -> Leaf:
    typed: dict[str, Any] = {"panel": model.panel, "option": f"--{name.replace('_', '-')}"}
    typed |= cast(dict[str, Any], field.json_schema_extra or {})
    if "argument" in typed:
        typed["option"] = typed.get("metavar", name.upper())
    return Leaf(name, field, model, **({"one_call": typed["panel"] == OUTPUT_PANEL} | typed))


def words(settings: Settings, always: Sequence[str] = ()) -> list[str]:
    """The words of a command line that ask for these settings: for what is not the default anyway, and `always`."""
    found: list[str] = []
    for leaf in leaves(type(settings)):
        value = getattr(settings, leaf.name)
        if value is None or (value == settings.default_of(leaf) and leaf.name not in always):
            continue
        if leaf.argument:
            found.append(str(value))
        elif isinstance(value, bool):
            found.append(leaf.option if value else str(leaf.off))
        else:
            found += [leaf.option, ":".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return found


def in_words(error: ValidationError, model: type[Settings]) -> BadSetting:
    """The first thing that is wrong, in one line that names the option, what was found and what is expected."""
    first = error.errors()[0]
    said, name = first.get("ctx", {}).get("error"), str(next(iter(first["loc"]), ""))
    if isinstance(said, BadInput):  # by a validator, which names its options itself
        return BadSetting(str(said), name)
    fields = {leaf.name: leaf for leaf in leaves(model)}
    if name not in fields:
        return BadSetting(f"{name}: no such setting{nearest(name, fields)}", name)
    leaf = fields[name]
    if first["type"] == "missing":
        return BadSetting(f"{leaf.option} is missing; give it", name)
    found = printable(str(first["input"]))
    return BadSetting(f"{leaf.option} {found}: expected {leaf.expected or _expected(first, leaf, found)}", name)


def _expected(error: Any, leaf: Leaf, found: str) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "literal_error":
        return context["expected"].replace("'", "") + nearest(found, leaf.choices)
    if context.keys() & _WORDS_OF.keys():
        bounds = {
            name: getattr(part, name) for part in leaf.field.metadata for name in _WORDS_OF if hasattr(part, name)
        }
        return " and ".join(f"{_WORDS_OF[name]} {bound}" for name, bound in (bounds or context).items())
    return _EXPECTED.get(kind.split("_")[0], "a whole number")


def typed_by(model: type[Settings], *left_out: str) -> Callable[[Function], Function]:
    """Give a function with `**settings` the signature and help of a model; its errors name arguments, not options.

    The signature has no types: with those of pydantic, help() would begin with a page of them.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except BadInput as error:
                raise BadInput(as_arguments(str(error))) from error

        options = [leaf for leaf in leaves(model) if leaf.name not in left_out]
        *own, _settings = inspect.signature(function).parameters.values()
        parameters = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in own]
        for leaf in options:
            parameters.append(inspect.Parameter(leaf.name, inspect.Parameter.KEYWORD_ONLY, default=leaf.default))
        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        helps = "\n".join(f"    {leaf.name}: {as_arguments(leaf.help)}" for leaf in options)
        call.__doc__ = f"{inspect.getdoc(function)}\n\nSettings:\n{helps}"
        return cast(Function, call)

    return decorate


def as_arguments(message: str) -> str:
    """A message that names options, for somebody who gave arguments in Python: `--batch-size` is `batch_size` there."""
    return re.sub(r"--([a-z][a-z-]*[a-z])", lambda found: found[1].replace("-", "_"), message)


def listed(value: Any) -> Any:
    """A single value, or a variable's words, as the list that an option takes which may be given several times."""
    if isinstance(value, str):
        return value.split() or [value]
    return value if isinstance(value, list | tuple) else [value]


Listed = BeforeValidator(listed)
