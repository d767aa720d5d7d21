"""`gcbs history`: reports over epochs."""

from gcbs_cli.cli.history_table import history_table
from gcbs_cli.cli.output import Output
from gcbs_cli.comparison.history import make_history, read_history
from gcbs_cli.plan_file.writing import check_outputs, write
from gcbs_cli.settings.others import History


def history(settings: History) -> None:
    """Read the reports, and print what they say over epochs."""
    out, html, plans = Output(settings.written), settings.html, settings.plans
    reports = list(settings.reports)
    check_outputs([html], [*reports, plans], force=settings.written.force)
    found = make_history(read_history(reports, plans, keep_order=settings.keep_order))
    if html is not None:
        from gcbs_cli.comparison.history_page import history_page

        write(html, history_page(found))
    out.table(history_table(found))
    out.result(found.model_dump(mode="json"))
