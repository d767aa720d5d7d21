"""The errors that gcbs raises on purpose; the command line turns each into one line and an exit code."""

from collections.abc import Iterable
from difflib import get_close_matches

NEARLY_ALIKE = 0.6
"""How alike a name must be to be suggested, from 0 to 1 (difflib)."""


class GcbsError(Exception):
    """The work itself failed (exit code 1): out of memory, a device error, a disk that is full."""

    exit_code = 1


class OutOfDeviceMemory(GcbsError):
    """A GPU's memory does not suffice; the message says for what, and what to do about it."""


class BadInput(GcbsError, ValueError):
    """What was asked cannot be done (exit code 2): a file, an option or an array does not fit.

    The message is one line that names the file or option, what was found, what was expected and what to do.
    """

    exit_code = 2


def nearest(name: str, names: Iterable[str]) -> str:
    """A suggestion to append to a message; nothing where no name is like this one."""
    close = get_close_matches(name, list(names), 1, NEARLY_ALIKE)
    return f"; did you mean {close[0]}?" if close else ""
