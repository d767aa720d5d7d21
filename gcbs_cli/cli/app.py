"""The `gcbs` program: its commands, and how it ends."""

import signal
import sys
from io import TextIOWrapper
from types import FrameType
from typing import Annotated, NoReturn

import typer

from gcbs_cli import __version__
from gcbs_cli.cli.apply import apply
from gcbs_cli.cli.check import check
from gcbs_cli.cli.compare import compare
from gcbs_cli.cli.config import config
from gcbs_cli.cli.configured import ConfiguredGroup, take_defaults
from gcbs_cli.cli.doctor import doctor
from gcbs_cli.cli.embed import embed
from gcbs_cli.cli.history import history
from gcbs_cli.cli.mine import mine
from gcbs_cli.cli.plan import plan
from gcbs_cli.cli.report import report
from gcbs_cli.cli.tune import tune

app = typer.Typer(
    name="gcbs",
    cls=ConfiguredGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Plan the batches of contrastive training, and say how much of the loss gap a plan closes.",
    epilog="Example:  gcbs plan x.npy y.npy -o perm.npy  &&  gcbs report x.npy y.npy -p perm.npy",
)
app.command()(plan)
app.command()(report)
app.command()(compare)
app.command()(tune)
app.command()(check)
app.command()(history)
app.command()(embed)
app.command()(doctor)
app.command()(config)
app.command()(apply)
app.command()(mine)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"gcbs {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            envvar="GCBS_CONFIG",
            metavar="FILE",
            help="TOML file with defaults of options. [default: [tool.gcbs] of the nearest pyproject.toml]",
            show_default=False,
        ),
    ] = None,
) -> None:
    take_defaults(ctx, config)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """SIGTERM unwinds like Ctrl-C, so that temporary files go, and ends with the code a shell expects."""
    raise SystemExit(128 + number)


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 the work failed, 2 usage or bad input, 130 interrupted."""
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows ASCII alone shows ? where there was an arrow
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
