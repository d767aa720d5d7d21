"""`gcbs history`: reports over epochs."""

from gcbs_cli.cli.output import Output
from gcbs_cli.cli.tables import history_table
from gcbs_cli.comparison.history import history_page, read_history
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.settings.others import History


def history(settings: History) -> None:
    """Read the reports, and print what they say over epochs."""
    out, html = Output(settings, settings.html), settings.html
    check_outputs([html], [*settings.reports, settings.plans], force=settings.force)
    found = read_history(settings.reports, settings.plans, keep_order=settings.keep_order)
    if html is not None:
        write(html, history_page(found))
    out.table(history_table(found))
    out.result(found.model_dump(mode="json"))
