"""The errors that gcbs raises on purpose; the command line turns each into one line and an exit code."""


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
