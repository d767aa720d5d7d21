"""`gcbs history`: reports over epochs."""

from gcbs_cli.cli.output import Output, figure_table
from gcbs_cli.comparison.history import SHOWN, history_page, read_history
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.settings.others import History


def history(settings: History) -> None:
    """Read the reports, and print what they say over epochs."""
    out, html = Output(settings, settings.html), settings.html
    check_outputs([html], [*settings.reports, settings.plans], force=settings.force)
    found = read_history(settings.reports, settings.plans, keep_order=settings.keep_order)
    if html is not None:
        write(html, history_page(found))
    table = figure_table([((epoch.name,), epoch) for epoch in found.epochs], ["epoch"], SHOWN)
    first = found.epochs[0].report
    of = f"{first.n:,} pairs, batch size {first.batch_size}, temperature {first.temperature:g}"
    out.table(found.verdict, "", table, "", f"{of}; losses in {first.unit}")
    out.result(found.model_dump(mode="json"))
