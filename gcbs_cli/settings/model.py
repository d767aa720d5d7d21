"""One model a command: each field is an option with its name, type, bounds, default, help and panel."""

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from types import UnionType
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from gcbs_cli.system.errors import BadInput, nearest, printable

OUTPUT_PANEL = "Output"
Model = TypeVar("Model", bound="Settings")
Function = TypeVar("Function", bound=Callable[..., Any])


def option(default: Any, short: str | None = None, **details: Any) -> Any:
    """A field with its default (... for none); details: those of `Leaf`, and pydantic's bounds.

    The help is the docstring below the field; only a type that several models share brings a description.
    """
    typed = {field.name: details.pop(field.name) for field in fields(Leaf) if field.name in details}
    return Field(default, json_schema_extra=typed | {"short": short}, **details)


@dataclass(frozen=True)
class Leaf:
    """One option and how it is typed on the command line.

    name: in Python. panel: title of its panel in --help. option: its name on the command line, where no other is given
    --its-name, an argument's in capitals. short: another name, such as -k. off: the flag that says no, such as
    --no-refine. metavar: what stands for the value in --help. argument: no option but an argument.
    only_with: other fields, `field` or `field=value|value`, without which it has no effect. not_with: those beside
    which it cannot be given. expected: what it takes, where its type and bounds do not say it.
    """

    name: str
    field: FieldInfo
    panel: str | None
    option: str
    short: str | None = None
    off: str | None = None
    metavar: str | None = None
    argument: bool = False
    only_with: str = ""
    not_with: str = ""
    expected: str | None = None

    @property
    def help(self) -> str:
        """What it does, in a sentence or two, and its default."""
        text = " ".join((self.field.description or "").split())
        if self.field.is_required():
            return text if self.argument else f"{text} [required]"
        if self.default in (None, "") or isinstance(self.default, bool) or "[default: " in text:
            return text
        return f"{text} [default: {self.default}]"

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
    """A value that does not fit; `name` is that of its field, or "" where several do not fit together."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name


class Settings(BaseModel):
    """Settings that cannot change and take no unknown names; values that do not fit raise BadInput in one line.

    A model inherits the options of others: a plan's settings are those of its graph, too.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True, use_attribute_docstrings=True
    )
    panel: ClassVar[str | None]
    omitted: ClassVar[tuple[str, ...]] = ()
    """Fields that a command inherits and does not offer."""

    def __init_subclass__(cls, panel: str | None = None, **config: Any) -> None:
        """panel: title in --help of the panel with the options that this class declares."""
        cls.panel = panel

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise in_words(error, type(self)) from None

    def changed(self, **changes: Any) -> Self:
        """A copy with other values for these options, checked again. Raises BadInput."""
        return type(self)(**self.model_dump(exclude_unset=True) | changes)

    def only(self, model: type[Model]) -> Model:
        """Those of the settings that the model has, too. They were checked when they were made."""
        names = self.model_fields_set & model.model_fields.keys()
        values = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return cast(Model, model.model_construct(**values))

    def default_of(self, leaf: Leaf) -> Any:
        """The value of an option that is not given, which another option may decide."""
        return leaf.default

    def check_effects(self) -> None:
        """Raises BadSetting for an option without effect beside the others, and for two that exclude each other."""
        options = {leaf.name: leaf for leaf in leaves(type(self)) if getattr(self, leaf.name) != self.default_of(leaf)}
        for leaf in options.values():
            lacking = self.lacking(leaf)
            if lacking is not None:
                raise BadSetting(f"{leaf.option} has no effect without {lacking}", leaf.name)
            for name in leaf.not_with.split():
                if name in options:
                    raise BadSetting(f"{leaf.option} and {options[name].option}: give only one", leaf.name)

    def lacking(self, leaf: Leaf) -> str | None:
        """What an option lacks to have an effect, as it is typed; None where it has one."""
        for condition in leaf.only_with.split():
            name, _, choices = condition.partition("=")
            values = listed(getattr(self, name))
            effective = [value for value in values if value in choices.split("|")] if choices else filter(None, values)
            if not any(effective):
                return f"--{name.replace('_', '-')} {choices.replace('|', ', ')}".rstrip()
        return None


@functools.cache
def leaves(model: type[Settings]) -> list[Leaf]:
    """Every option of a model: those that it declares, then those that it inherits, the panel of outputs last."""
    options: dict[str, Leaf] = {}
    for base in model.__mro__:
        for name in inspect.get_annotations(base):
            if name in model.model_fields and name not in (*model.omitted, *options):
                options[name] = _leaf(name, model.model_fields[name], base)
    return sorted(options.values(), key=lambda leaf: leaf.panel == OUTPUT_PANEL)


def _leaf(name: str, field: FieldInfo, model: type[Settings]) -> Leaf:
    details = cast(dict[str, Any], field.json_schema_extra or {})
    # A name that Python or pydantic has already ends in an underscore here.
    option = name.upper() if "argument" in details else f"--{name.strip('_').replace('_', '-')}"
    return Leaf(name, field, **{"panel": model.panel, "option": option} | details)


def words(settings: Settings, always: Sequence[str] = ()) -> list[str]:
    """The words of a command line that ask for these settings: for what is not the default anyway, and `always`."""
    line: list[str] = []
    for leaf in leaves(type(settings)):
        value = getattr(settings, leaf.name)
        if value is None or (value == settings.default_of(leaf) and leaf.name not in always):
            continue
        if leaf.argument:
            line.append(str(value))
        elif isinstance(value, bool):
            line.append(leaf.option if value else str(leaf.off))
        else:
            line += [leaf.option, ":".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return line


PLAIN_WORDS = {
    "Input should be": "expected",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    ", unable to parse string as an integer": "",
    ", unable to parse string as a number": "",
}
"""What pydantic says of a value that does not fit, and what gcbs says."""


def in_words(error: ValidationError, model: type[Settings]) -> BadSetting:
    """The first thing that is wrong, in one line that names the option, what was found and what is expected."""
    first = error.errors()[0]
    cause, name = first.get("ctx", {}).get("error"), str(next(iter(first["loc"]), ""))
    if isinstance(cause, BadInput):  # by a validator, which names its options itself
        return BadSetting(str(cause), name)
    options = {leaf.name: leaf for leaf in leaves(model)}
    if name not in options:
        return BadSetting(f"{name}: no such setting{nearest(name, options)}", name)
    leaf = options[name]
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return BadSetting(f"{leaf.option} is missing; give it", name)
    value = printable(str(first["input"]))
    expected = first["msg"]
    for words, plain in PLAIN_WORDS.items():
        expected = expected.replace(words, plain)
    if leaf.expected is not None:
        expected = f"expected {leaf.expected}"
    return BadSetting(f"{leaf.option} {value}: {expected}", name)


def documents(model: type[Settings], *left_out: str) -> Callable[[Function], Function]:
    """Append the settings of a model to the docstring of a function that takes them as `**settings`."""

    def decorate(function: Function) -> Function:
        helps = [f"    {leaf.name}: {leaf.help}" for leaf in leaves(model) if leaf.name not in left_out]
        function.__doc__ = "\n".join([f"{inspect.getdoc(function)}\n\nSettings:", *helps])
        return function

    return decorate


def listed(value: Any) -> Any:
    """A single value, or a variable's words, as the list that an option takes which may be given several times."""
    if isinstance(value, str):
        return value.split() or [value]
    return value if isinstance(value, list | tuple) else [value]


Listed = BeforeValidator(listed)
