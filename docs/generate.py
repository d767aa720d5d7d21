"""Write cli.md, python-api.md and the table of figures in reading-a-report.md, from the code itself.

Usage: ``python docs/generate.py``
"""

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

import numpy as np

import gcbs_cli
from gcbs_cli.cli.app import COMMANDS
from gcbs_cli.settings.model import Leaf, leaves
from gcbs_cli.settings.others import model_of
from gcbs_cli.system import arrays

HERE = Path(__file__).resolve().parent
FIGURES_PAGE, FIGURES_MARK = "reading-a-report.md", "<!-- All figures: written by docs/generate.py. -->\n"
NOTE = "<!-- Written by docs/generate.py; change the help texts or docstrings and run it again. -->\n\n"
ROOT = {"--version": "Print the version and stop."}


def main() -> None:
    """Write both pages."""
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Each generated page by its name."""
    return {"cli.md": command_line_page(), "python-api.md": python_page(), FIGURES_PAGE: figures_page()}


def figures_page() -> str:
    """The page as it is, with the table of all figures of a report at its end."""
    from gcbs_cli.reports.figures import FIGURES

    text = (HERE / FIGURES_PAGE).read_text(encoding="utf-8").partition(FIGURES_MARK)[0]
    rows = [(f"`{figure.path}`", figure.meaning, f"`{figure.random}`" if figure.random else "") for figure in FIGURES]
    return text + FIGURES_MARK + "\n" + _table(("figure", "what it is", "of random batches"), rows)


def command_line_page() -> str:
    """Every command with its options, from its model."""
    parts = [NOTE, "# The command line\n\n"]
    parts.append("Exit codes: 0 done, 1 the work failed, 2 usage or bad input, 130 interrupted.\n")
    parts.append("\n## gcbs\n\n" + _table(("option", ""), [(f"`{flag}`", said) for flag, said in ROOT.items()]))
    for name in COMMANDS:
        model = model_of(name)
        arguments = [leaf for leaf in leaves(model) if leaf.argument]
        usage = " ".join(map(_usage, arguments))
        said = _help(f"{COMMANDS[name]}\n\n{inspect.getdoc(model)}")
        parts.append(f"\n## gcbs {name} {usage}".rstrip() + f"\n\n{said}")
        if arguments:
            parts.append("\n" + _table(("argument", ""), [(_usage(leaf), leaf.help) for leaf in arguments]))
        options = [leaf for leaf in leaves(model) if not leaf.argument]
        parts.append("\n" + _table(("option", ""), [(_flags(leaf), leaf.help) for leaf in options]))
    return "".join(parts)


def _usage(leaf: Leaf) -> str:
    name = leaf.option + ("..." if leaf.many else "")
    return name if leaf.field.is_required() else f"[{name}]"


def _flags(leaf: Leaf) -> str:
    flags = (leaf.option, leaf.short, leaf.off)
    return ", ".join(f"`{flag}`" for flag in flags if flag)


def _help(text: str) -> str:
    """The paragraphs, with the examples as a block of code."""
    lines = inspect.cleandoc(text).replace("\b", "").splitlines()
    words = [
        line
        for line in lines
        if not line.lstrip().startswith("gcbs ") and line.strip() not in ("Examples:", "Example:")
    ]
    examples = [line.strip() for line in lines if line.lstrip().startswith("gcbs ")]
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(words).strip())
    return body + ("\n\n```sh\n" + "\n".join(examples) + "\n```\n" if examples else "\n")


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in line) + " |\n" for line in lines
    )


def python_page() -> str:
    """The functions and classes of `gcbs_cli`, with signatures and docstrings."""
    parts = [NOTE, "# The Python API\n\n", _indented(inspect.getdoc(gcbs_cli) or ""), "\n"]
    for name in gcbs_cli.__all__:
        thing = getattr(gcbs_cli, name)
        if callable(thing):
            parts.append(f"\n## gcbs_cli.{name}\n\n```python\n{_signature(thing)}\n```\n\n")
            parts.append(_indented(inspect.getdoc(thing) or "") + "\n")
    for thing in _results():
        parts.append(f"\n## {thing.__name__}\n\n{_indented(inspect.getdoc(thing) or '')}\n\n")
        parts.append(_table(("field", "type"), [(f"`{name}`", f"`{kind}`") for name, kind in _fields(thing)]))
    return "".join(parts)


def _results() -> list[type]:
    from gcbs_cli.mining.negatives import Negatives
    from gcbs_cli.mining.run import Mined, MineReport
    from gcbs_cli.planning.plan import PlanResult
    from gcbs_cli.reports.schema import GapReport

    return [PlanResult, GapReport, Mined, Negatives, MineReport]


def _fields(thing: type) -> Iterator[tuple[str, str]]:
    tree: Any = ast.parse(inspect.cleandoc("\n" + inspect.getsource(thing))).body[0]
    for node in tree.body:
        if isinstance(node, ast.AnnAssign):
            kind: Any = node.annotation
            if isinstance(kind, ast.Subscript) and ast.unparse(kind.value) == "Annotated":
                kind = kind.slice.elts[0]
            yield ast.unparse(node.target), re.sub(r"\w+", _spelled_out, ast.unparse(kind))


def _spelled_out(word: re.Match[str]) -> str:
    """The type of an array that has a name in the package."""
    kind = vars(arrays).get(word[0])
    return (
        f"NDArray[np.{get_args(get_args(kind)[1])[0].__name__}]"
        if get_origin(kind) is np.ndarray and word[0] != "NDArray"
        else word[0]
    )


def _signature(thing: Any) -> str:
    """A function's name and arguments, one a line; the settings of a model are listed as `**settings`."""
    if isinstance(thing, type):
        return f"class {thing.__name__}"
    source = inspect.cleandoc("\n" + inspect.getsource(inspect.unwrap(thing)))
    node: Any = ast.parse(source).body[0]
    return "\n".join(source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]).rstrip().removesuffix(":")


def _indented(text: str) -> str:
    """Sections (Args, Returns, Raises, …) as lists, and indented code as a block of code."""
    text = re.sub(r"(?m)^(Args|Returns|Raises|Attributes|Settings):\n((?:    .*\n?)+)", _section, text)
    code = r"(?m)(?:^    .*\n?|^\n(?=    ))+"
    return re.sub(code, lambda block: f"```python\n{inspect.cleandoc(chr(10) + block[0]).strip()}\n```\n", text)


def _section(section: re.Match[str]) -> str:
    """A section of a docstring as a bold word and a list; what is indented further goes on."""
    text = inspect.cleandoc(section[2])
    items = [" ".join(text.split())] if section[1] == "Returns" else re.sub(r"\n +", " ", text).splitlines()
    named = [re.sub(r"^([\w*]+): ", r"`\1`: ", item) for item in items]
    return f"**{section[1]}**\n\n" + "".join(f"- {item}\n" for item in named)


if __name__ == "__main__":
    main()
