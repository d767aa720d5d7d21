"""Turn what went wrong into one line on stderr and an exit code."""

import functools
import os
import sys
from collections.abc import Callable
from typing import TypeVar

import typer

from gcbs_cli.cli.output import say
from gcbs_cli.errors import GcbsError
from gcbs_cli.memory import check_address_space

Command = TypeVar("Command", bound=Callable[..., None])


def at_the_edge(command: Command) -> Command:
    """Wrap a command: gcbs's own errors, Ctrl-C, a closed pipe and lack of memory end it without a traceback."""

    @functools.wraps(command)
    def run(*args: object, **kwargs: object) -> None:
        try:
            check_address_space()
            command(*args, **kwargs)
            sys.stdout.flush()
        except GcbsError as error:
            _stop(str(error), error.exit_code)
        except KeyboardInterrupt:
            _stop("interrupted; nothing was written", 130)
        except BrokenPipeError:
            # The reader of stdout has left (`| head`): nobody is there to be told.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except MemoryError:
            _stop("out of memory; try --max-memory, a higher --quantile or fewer rows", 1)
        except OSError as error:
            _stop(f"{error.filename or 'input/output'}: {error.strerror or error}", 1)

    return run  # type: ignore[return-value]


def _stop(message: str, code: int) -> None:
    # File names and other programs' errors may hold line ends and control characters.
    line = "".join(char if char.isprintable() else " " for char in message)
    say(f"gcbs: {line}")
    raise typer.Exit(code) from None
