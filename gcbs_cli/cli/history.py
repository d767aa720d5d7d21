"""`gcbs history`: reports over epochs."""

from typing import Annotated

import typer

from gcbs_cli.cli import options
from gcbs_cli.cli.edge import at_the_edge


@at_the_edge
def history(
    reports: Annotated[
        list[str], typer.Argument(metavar="REPORT", help="Reports that gcbs report -o or gcbs plan --report wrote.")
    ],
    plans: Annotated[
        str | None,
        typer.Option(
            "--plans",
            help="Quoted pattern of the plans, in the reports' order. "
            "[default: epoch-2.npy, .parquet or .txt beside epoch-2.json]",
            rich_help_panel=options.INPUT_PANEL,
            show_default=False,
        ),
    ] = None,
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order", help="Take the reports as given, not 2 before 10.", rich_help_panel=options.INPUT_PANEL
        ),
    ] = False,
    html: Annotated[
        str | None,
        typer.Option(
            "--html", help="Write the history as one page that needs no network.", rich_help_panel=options.OUTPUT_PANEL
        ),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Show losses, gap and plans over epochs, and whether planning still pays.

    Reads one report an epoch. Where the plans are found, it also says how long they took and how much of each recurs.

    Examples:

      gcbs history reports/*.json

      gcbs history reports/*.json --plans 'plans/*.npy' --html history.html
    """
    from gcbs_cli.cli.history_table import history_table
    from gcbs_cli.cli.output import Output, choose_mode
    from gcbs_cli.comparison.history import make_history, read_history
    from gcbs_cli.plan_file.writing import check_outputs, write

    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    check_outputs([html], [*reports, plans], force=force)
    found = make_history(read_history(reports, plans, keep_order=keep_order))
    if html is not None:
        from gcbs_cli.comparison.history_page import history_page

        write(html, history_page(found))
    out.table(history_table(found))
    out.result(found.model_dump(mode="json"))
