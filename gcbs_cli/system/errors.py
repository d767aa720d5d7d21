"""The errors that gcbs raises on purpose; the command line turns each into one line and an exit code."""

import re
from collections import deque
from collections.abc import Iterable
from difflib import get_close_matches

NEARLY_ALIKE = 0.6
"""How alike a name must be to be suggested, from 0 to 1 (difflib)."""
WRITTEN: deque[str] = deque(maxlen=8)
"""Files that were put in place last: what fails afterwards says so."""
_ADDRESS = re.compile(r"://(?:[^/\s]*@)?([^?#\s]*)([?#]\S*[^\s;,):])?")
"""What may be shown of an address, between user and password and the query or fragment."""


class GcbsError(Exception):
    """The work itself failed (exit code 1): out of memory, a device error, a disk that is full."""

    exit_code = 1


class BadInput(GcbsError, ValueError):
    """Bad input (exit code 2): a file, an option or an array does not fit.

    The message is one line that names the file or option, what was found, what was expected and what to do.
    """

    exit_code = 2


def nearest(name: str, names: Iterable[str]) -> str:
    """A suggestion to append to a message; nothing where no name is like this one."""
    close = get_close_matches(name, filter(str.isprintable, names), 1, NEARLY_ALIKE)
    return f"; did you mean {close[0]}?" if close else ""


def printable(text: str) -> str:
    """A text of strangers in one line, without what steers a terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def without_secrets(text: str) -> str:
    """A text whose addresses may be shown to others: without users, passwords, queries, fragments."""
    return _ADDRESS.sub(lambda match: f"://{match[1]}" + ("?…" if match[2] else ""), text)
