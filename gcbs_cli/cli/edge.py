"""Turn what went wrong into one line on stderr and an exit code."""

import functools
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.exceptions import TyperException

from gcbs_cli.cli.output import say
from gcbs_cli.system.errors import GcbsError, nearest
from gcbs_cli.system.limits import check_address_space

TORCH_SENTENCES = 3
"""Of what torch says of a full GPU: that it is full, what was asked for, and which GPU with how much it is."""

MOST_EXAMPLES = 3


def report_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command: gcbs's own errors, Ctrl-C, a closed pipe and a lack of memory, here or on a GPU, end it without a
    traceback.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
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
            forget_stdout()
            raise typer.Exit(1) from None
        except MemoryError:
            _stop("out of memory; try --max-memory, a higher --quantile or fewer rows", 1)
        except RuntimeError as error:
            if not _is_full_gpu(error):
                raise
            said = ". ".join(str(error).split(". ")[:TORCH_SENTENCES])
            _stop(f"{said}; try --partitions, fewer rows, smaller --chunk-rows or --device cpu", 1)
        except OSError as error:
            _stop(f"{error.filename or 'input/output'}: {error.strerror or error}", 1)

    return run


def _is_full_gpu(error: RuntimeError) -> bool:
    """Whether a GPU had no room; torch is there already where it raised that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _stop(message: str, code: int) -> None:
    # File names and other programs' errors may hold line ends and control characters.
    line = "".join(char if char.isprintable() else " " for char in message)
    say(f"gcbs: {line}")
    raise typer.Exit(code) from None


def in_one_line(error: TyperException) -> int:
    """Say what is wrong with the words of a command line, as every other error is said; the exit code."""
    context, option = getattr(error, "ctx", None), getattr(error, "option_name", None)
    said = error.format_message().rstrip(".")
    if context is not None and option is not None:
        known = [name for parameter in context.command.params for name in parameter.opts]
        said = f"{option}: no such option{nearest(option, known)}"
    elif getattr(error, "param", None) is not None:
        said = f"{error.param.metavar}: is missing"  # type: ignore[attr-defined]
    if context is not None and "did you mean" not in said:
        said += f"; {context.command_path} --help shows what there is"
    say(f"gcbs: {said}")
    return error.exit_code


def show_examples(said: str, examples: Sequence[str], more: str) -> None:
    """Show a few ways to call a command to somebody who called it with nothing; it ends with exit code 2."""
    for line in (said, *examples[:MOST_EXAMPLES], more):
        print(line, file=sys.stderr)
    raise typer.Exit(2)


def forget_stdout() -> None:
    """Let what is still to be printed go nowhere, so that the interpreter does not fail on it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
