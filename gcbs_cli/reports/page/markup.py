"""Elements of HTML and SVG as text; what is not markup already is escaped."""

from collections.abc import Sequence
from html import escape
from typing import Final

SHOWN_DIGITS: Final = 2
"""Decimals of a coordinate: a hundredth of a pixel."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """<name attributes>children</name>; children that are no Markup are escaped, attributes of None left out.

    A trailing underscore of an attribute's name is dropped (class_), others become hyphens (stroke_width).
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_shown(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """The children one after the other, escaped where they are no Markup."""
    return Markup("".join(child if isinstance(child, Markup) else escape(child) for child in children))


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{round(value, SHOWN_DIGITS):g}"


def table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, text_columns: int = 1) -> Markup:
    """A table in a region that the keyboard can scroll; the first `text_columns` columns are aligned to the left."""
    head = element(
        "tr", *(element("th", name, scope="col", class_=_side(n, text_columns)) for n, name in enumerate(header))
    )
    body = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            *(element("td", cell, class_=_side(n, text_columns)) for n, cell in enumerate(row[1:], start=1)),
        )
        for row in rows
    ]
    inner = element("table", element("caption", caption), element("thead", head), element("tbody", *body))
    return element("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _side(number: int, text_columns: int) -> str | None:
    return None if number < text_columns else "number"
