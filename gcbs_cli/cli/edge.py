"""Turn what went wrong into one line on stderr and an exit code."""

import os
import sys
from collections.abc import Callable, Sequence

import typer
from typer.exceptions import TyperException

from gcbs_cli.cli.output import forget_stdout, say
from gcbs_cli.system.errors import WRITTEN, GcbsError, nearest
from gcbs_cli.system.limits import check_address_space

TORCH_SENTENCES = 3
"""Of what torch says of a full GPU: that it is full, what was asked for, and which GPU with how much it is."""

MOST_EXAMPLES = 3
INTERRUPTED = 130
TRACEBACK = "GCBS_TRACEBACK"
"""A variable: set, it lets errors through of which gcbs has nothing better to say; the tests set it."""


def guarded(work: Callable[[], int]) -> int:
    """The exit code of a command. Whatever goes wrong in it, in any library, is a line on stderr and no traceback."""
    WRITTEN.clear()
    try:
        check_address_space()
        code = work()
        sys.stdout.flush()
    except TyperException as error:
        return in_one_line(error)
    except Exception as error:
        if isinstance(error, OSError):
            forget_stdout()
        message, code = _explained(error)
    else:
        message = "interrupted" if code == INTERRUPTED else ""
    if message:
        say(f"gcbs: {message}" + (f"; in place: {', '.join(WRITTEN)}" if WRITTEN else ""))
    return code


def _explained(error: Exception) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    name, torch = type(error).__name__, sys.modules.get("torch")
    if isinstance(error, GcbsError):
        return str(error), error.exit_code
    if isinstance(error, BrokenPipeError):  # the reader of stdout has left (`| head`): nobody is there to be told
        return "", 1
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        said = ". ".join(str(error).split(". ")[:TORCH_SENTENCES])
        return f"{said}; try --partitions, fewer rows, smaller --chunk-rows or --device cpu", 1
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return "out of memory; try --max-memory, a higher --quantile or fewer rows", 1
    if isinstance(error, OSError):
        return f"{error.filename or 'input/output'}: {error.strerror or error}", 1
    if os.environ.get(TRACEBACK):
        raise error
    return f"{name}: {error}; a defect of gcbs, or of a library: {TRACEBACK}=1 shows where", 1


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
