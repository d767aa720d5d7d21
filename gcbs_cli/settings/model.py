"""One model a command: each field is an option with its name, type, bounds, default, help and panel."""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, Self, TypeVar, cast, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from gcbs_cli.system.errors import BadInput

OUTPUT_PANEL = "Output"
NEARLY_ALIKE = 0.5
"""How alike a name must be to be suggested, from 0 to 1 (difflib)."""
Function = TypeVar("Function", bound=Callable[..., Any])
_WORDS_OF = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")
_EXPECTED = {
    "finite_number": "a finite number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "too_short": "at least one",
}
"""What pydantic's kinds of errors expect; where nothing is said, a whole number."""


@dataclass(frozen=True)
class Typed:
    """How a field is typed on the command line where `--its-name VALUE` does not say it.

    `short`: such as -k; `option`: the name where the field's is a plural; `off`: the flag that says no, such as
    --no-refine; `default`: the default in words, where the field holds None; `metavar`: what stands for the value;
    `argument`: no option but an argument; `one_call`: says what one call does, so that a default for all commands
    would surprise; `panel`: title of its panel in --help, where it is not the model's.
    """

    short: str | None = None
    option: str | None = None
    off: str | None = None
    default: str | None = None
    metavar: str | None = None
    argument: bool = False
    one_call: bool = False
    panel: str | None = None


@dataclass(frozen=True)
class Leaf:
    """One option: where its field lies in the model, the field, and the title of its panel."""

    path: tuple[str, ...]
    field: FieldInfo
    typed: Typed
    panel: str | None

    @property
    def name(self) -> str:
        """The name of the argument in Python."""
        return self.path[-1]

    @property
    def option(self) -> str:
        """Its name on the command line; an argument's in capitals."""
        if self.typed.argument:
            return self.typed.metavar or self.name.upper()
        return self.typed.option or "--" + self.name.replace("_", "-")

    @property
    def help(self) -> str:
        """What it does, in a sentence or two."""
        return self.field.description or ""

    @property
    def key(self) -> str:
        """Its name in a file of defaults."""
        return self.option.removeprefix("--")

    @property
    def default(self) -> Any:
        """The default; None where there is none."""
        return None if self.field.is_required() else self.field.get_default(call_default_factory=True)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The types a value can have, None left out: `(int,)` of `int | None`."""
        kind = self.field.annotation
        if isinstance(kind, type) or getattr(kind, "__origin__", None) in (Literal, tuple):
            return (kind,)
        return tuple(part for part in get_args(kind) if part is not type(None))

    @property
    def many(self) -> bool:
        """Whether the option may be given several times."""
        return any(get_args(kind)[-1:] == (...,) for kind in self.kinds)

    @property
    def one_call(self) -> bool:
        """Whether it says what one call does."""
        return self.typed.one_call or self.panel == OUTPUT_PANEL


class BadSetting(BadInput):
    """A value that its field does not take; `leaf` is the name of the field."""

    def __init__(self, message: str, leaf: str) -> None:
        super().__init__(message)
        self.leaf = leaf


class Settings(BaseModel):
    """Settings that cannot change and take no unknown names; values that do not fit raise BadInput in one line."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, defer_build=True)
    panel: ClassVar[str | None] = None
    """Title of the panel in --help."""
    omitted: ClassVar[frozenset[str]] = frozenset()
    """Fields of nested models that this command does not offer."""

    def __init__(self, **values: Any) -> None:
        fields = type(self).model_fields
        try:
            super().__init__(**{name: _no_bool_as_number(value, fields.get(name)) for name, value in values.items()})
        except ValidationError as error:
            raise in_words(error, type(self)) from None

    @classmethod
    def of(cls, **given: Any) -> Self:
        """The model from options by name, whatever nested model they lie in, or from whole nested models by theirs.

        Raises BadInput for unknown names and values that do not fit.
        """
        nested: dict[str, Any] = {name: value for name, value in given.items() if isinstance(value, Settings)}
        unknown = {name: value for name, value in given.items() if name not in nested}
        for leaf in leaves(cls):
            if leaf.path[0] in nested and isinstance(nested[leaf.path[0]], Settings):
                continue
            at = nested
            for part in leaf.path[:-1]:
                at = at.setdefault(part, {})
            if leaf.name in unknown:
                at[leaf.name] = unknown.pop(leaf.name)
        for name in unknown:
            raise BadInput(f"{name}: no such setting{nearest(name, [leaf.name for leaf in leaves(cls)])}")
        return cls(**nested)

    @property
    def values(self) -> dict[str, Any]:
        """Every option's value by its name."""
        found = {}
        for leaf in leaves(type(self)):
            value: Any = self
            for part in leaf.path:
                value = getattr(value, part)
            found[leaf.name] = value
        return found

    @property
    def given(self) -> frozenset[str]:
        """The names of the options that were set, to whatever value."""
        names: set[str] = set()
        for name in self.model_fields_set:
            value = getattr(self, name)
            names |= value.given if isinstance(value, Settings) else {name}
        return frozenset(names)

    def changed(self, **changes: Any) -> Self:
        """The same with other values for these options, or other nested models, checked again. Raises BadInput."""
        values, whole = self.values, [name for name, value in changes.items() if isinstance(value, Settings)]
        kept = {leaf.name for leaf in leaves(type(self)) if leaf.name in self.given and leaf.path[0] not in whole}
        return type(self).of(**{name: values[name] for name in kept} | changes)


def leaves(model: type[Settings], path: tuple[str, ...] = (), panel: str | None = None) -> Iterator[Leaf]:
    """Every option of a model and of those nested in it, in their order."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Settings):
            for leaf in leaves(kind, (*path, name), kind.panel or panel):
                if leaf.name not in model.omitted:
                    yield leaf
        else:
            typed = next((found for found in field.metadata if isinstance(found, Typed)), Typed())
            yield Leaf((*path, name), field, typed, typed.panel or panel)


def words(settings: Settings, always: Sequence[str] = ()) -> list[str]:
    """The words of a command line that ask for these settings: for what is not the default anyway, and `always`."""
    found: list[str] = []
    values = settings.values
    for leaf in leaves(type(settings)):
        value = values[leaf.name]
        if value is None or (value == leaf.default and leaf.name not in always):
            continue
        if leaf.typed.argument:
            found.append(str(value))
        elif isinstance(value, bool):
            found.append(leaf.option if value else str(leaf.typed.off))
        elif leaf.many:
            found += [word for item in value for word in (leaf.option, str(item))]
        else:
            found += [leaf.option, ":".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return found


def in_words(error: ValidationError, model: type[Settings]) -> BadInput:
    """The first thing that is wrong, in one line that names the option, what was found and what is expected."""
    first = error.errors()[0]
    said = first.get("ctx", {}).get("error")
    if isinstance(said, BadInput):  # by a validator, which names its options itself
        return BadSetting(str(said), str(first["loc"][0])) if first["loc"] and "leaf" not in vars(said) else said
    name = str(first["loc"][0])
    fields = {leaf.name: leaf for leaf in leaves(model)}
    if name not in fields:
        return BadSetting(f"{name}: no such setting{nearest(name, fields)}", name)
    leaf = fields[name]
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return BadSetting(f"{leaf.option}: is missing; give it", name)
    found = "".join(char if char.isprintable() else " " for char in str(first["input"]))
    return BadSetting(f"{leaf.option} {found}: expected {_expected(first, leaf.field, found)}", name)


def _expected(error: Any, field: FieldInfo, found: str) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in ("literal_error", "enum"):
        choices = re.findall("'([^']+)'", context["expected"])
        return f"{', '.join(choices[:-1])} or {choices[-1]}{nearest(found, choices)}"
    if kind in _BOUNDS:
        bounds = {name: getattr(part, name) for part in field.metadata for name in _WORDS_OF if hasattr(part, name)}
        return " and ".join(f"{_WORDS_OF[name]} {bound}" for name, bound in (bounds or context).items())
    return _EXPECTED.get(kind, "a whole number")


def typed_by(model: type[Settings], *left_out: str) -> Callable[[Function], Function]:
    """Give a function that takes `**settings` the signature and help of a model, but for options it takes otherwise.

    Errors name arguments instead of options.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except BadInput as error:
                raise BadInput(as_arguments(str(error))) from error

        options = [leaf for leaf in leaves(model) if leaf.name not in left_out]
        known = inspect.signature(function).parameters.values()
        taken = [parameter for parameter in known if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        taken += [_as_parameter(leaf) for leaf in options if leaf.name not in inspect.signature(function).parameters]
        call.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
        helps = "\n".join(f"- {leaf.name}: {as_arguments(leaf.help)}" for leaf in options)
        call.__doc__ = f"{inspect.getdoc(function)}\n\n{helps}"
        return cast(Function, call)

    return decorate


def _as_parameter(leaf: Leaf) -> inspect.Parameter:
    default = inspect.Parameter.empty if leaf.field.is_required() else leaf.default
    return inspect.Parameter(
        leaf.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=leaf.field.annotation
    )


def as_arguments(message: str) -> str:
    """A message that names options, for somebody who gave arguments in Python: `--batch-size` is `batch_size` there."""
    return re.sub(r"--([a-z][a-z-]*[a-z])", lambda found: found[1].replace("-", "_"), message)


def nearest(name: str, names: Iterable[str]) -> str:
    """A suggestion to append to a message; nothing where no name is like this one."""
    close = get_close_matches(name, list(names), 1, NEARLY_ALIKE)
    return f"; did you mean {close[0]}?" if close else ""


def listed(value: Any) -> Any:
    """A single value, or a variable's words, as the list that an option takes which may be given several times."""
    if isinstance(value, str):
        return value.split() if len(value.split()) > 1 else [value]
    return value if isinstance(value, list | tuple) else [value]


Listed = BeforeValidator(listed)


def _no_bool_as_number(value: Any, field: FieldInfo | None) -> Any:
    """True and false as words where the field takes no truth value: pydantic would read them as 1 and 0."""
    takes_bool = field is None or field.annotation is bool or bool in get_args(field.annotation)
    return str(value).lower() if isinstance(value, bool) and not takes_bool else value
