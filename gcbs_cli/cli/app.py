"""The `gcbs` program: its commands, and how it ends."""

import gc
import os
import signal
import sys
import warnings
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from gcbs_cli import __version__
from gcbs_cli.cli.output import forget, say
from gcbs_cli.system.errors import WRITTEN, GcbsError
from gcbs_cli.system.limits import check_address_space

COMMANDS = {
    "plan": "Order the pairs so that consecutive batches hold hard negatives.",
    "report": "Say how much of the gap between L_global and L_train a plan closes.",
    "compare": "Make a plan with each method and say what each is worth.",
    "check": "Check that a plan is a permutation, matches its manifest and was made from this data.",
    "history": "Show losses, gap and plans over epochs, and whether planning still pays.",
    "demo": "Make sample data, plan it and report on the plan, showing each command.",
    "embed": "Embed pairs of texts with a sentence-transformers model: a first plan without writing code.",
    "doctor": "Show versions, devices and their speed, memory, optional packages, and what a plan would need.",
    "config": "Show which settings are in force and where each comes from.",
    "apply": "Write data in plan order: batch b is then rows b·k to (b+1)·k.",
    "mine": "Find each row's hardest negatives, and say what the loss would be with them.",
}
"""Each command with the first sentence of its help; its settings have the rest, imported when it is called."""
INTERRUPTED = 130
TRACEBACK = "GCBS_TRACEBACK"
"""A variable: when it is set, unforeseen errors end in a traceback; the tests set it."""


class Commands(TyperGroup):
    """Builds a command when it is called, and says in a line what was mistyped."""

    def main(self, *args: Any, standalone_mode: bool = True, **more: Any) -> Any:
        """Run the command line, and leave with its exit code; what goes wrong, in any library, is a line on stderr."""
        WRITTEN.clear()
        os.environ.pop("NUMBA_NUM_THREADS", None)  # numba fails with 0; gcbs has threads of its own
        try:
            check_address_space()
            code = super().main(*args, standalone_mode=False, **more) or 0  # type: ignore[misc]
            message = "interrupted" if code == INTERRUPTED else ""
            sys.stdout.flush()
        except Exception as error:
            if isinstance(error, OSError):
                forget(1)
            message, code = _explained(error)
        if message:
            say(f"gcbs: {message}" + (f"; in place: {', '.join(WRITTEN)}" if WRITTEN else ""))
        if standalone_mode:
            sys.exit(code)
        return code

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The words of the command line; without any, those that show the help."""
        return super().parse_args(ctx, args or ["--help"])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command with its options."""
        from gcbs_cli.cli.signature import make_command

        name, *words = args
        if name in COMMANDS:
            return name, make_command(name, COMMANDS), words
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="gcbs",
    cls=Commands,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Plan the batches of contrastive training, and say how much of the loss gap a plan closes.",
    epilog="Example:  gcbs plan x.npy y.npy -o perm.npy  &&  gcbs report x.npy y.npy -p perm.npy",
)
for _name, _sentence in COMMANDS.items():
    app.command(_name, help=_sentence)(lambda: None)


def _show_version(requested: bool) -> None:
    if requested:
        print(f"gcbs {__version__}", flush=True)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """The options of the program itself."""


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 the work failed, 2 usage or bad input, 130 interrupted."""
    gc.disable()  # until the work begins: imports leave no garbage, and make_command enables it again
    # SIGTERM unwinds like Ctrl-C, so that temporary files are removed, and ends with the code that a shell expects.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries warn their programmers
    _prepare_streams()
    app()


def _prepare_streams() -> None:
    """Open the standard streams that are closed, and let all of them take any text.

    The next file to be opened would get the number of a closed stream, and with it what is printed. Output to a closed
    stderr is lost; output to a closed stdout fails, for it may be the permutation. An ASCII terminal shows ? for an
    arrow.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w", encoding="utf-8", closefd=False))
        stream = getattr(sys, name)
        if isinstance(stream, TextIOWrapper):  # a notebook replaces the streams by others
            stream.reconfigure(errors="replace")


def _explained(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    # A thread may be importing torch still.
    full_gpu = getattr(sys.modules.get("torch"), "OutOfMemoryError", ())
    if isinstance(error, GcbsError):
        return str(error), error.exit_code
    if isinstance(error, TyperException):
        return _mistyped(error), error.exit_code
    if isinstance(error, BrokenPipeError):  # the reader of stdout has left (`| head`)
        return "", 1
    if isinstance(error, full_gpu):
        message, *_ = str(error).split(". Process")  # of others, and then advice on torch's settings
        return f"{message}; try --partitions, fewer rows, a smaller --chunk-rows or --encode-batch, or --device cpu", 1
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return "out of memory; try --max-memory, a higher --quantile or fewer rows", 1
    if isinstance(error, OSError):
        return f"{error.filename or 'input/output'}: {error.strerror or error}", 1
    if os.environ.get(TRACEBACK):
        raise error
    return f"{type(error).__name__}: {error}; a bug in gcbs or a library: {TRACEBACK}=1 shows where", 1


def _mistyped(error: TyperException) -> str:
    """What is wrong with the words of a command line."""
    message = error.format_message().rstrip(".?")
    context = getattr(error, "ctx", None)
    if context is not None:
        message += f"; {context.command_path} --help shows what there is, with examples"
    return message
