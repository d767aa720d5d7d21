"""`gcbs history`: reports over epochs."""

from gcbs_cli.cli.output import Output, figure_table
from gcbs_cli.comparison.history import SHOWN, read_history
from gcbs_cli.settings.others import History


def history(settings: History) -> None:
    """Read the reports, and print what they say over epochs."""
    out = Output(settings)
    epochs = read_history(settings.reports, settings.plans)
    table = figure_table([((epoch.name,), epoch) for epoch in epochs.epochs], ["epoch"], SHOWN)
    first = epochs.epochs[0].report
    scope = f"{first.n:,} pairs, batch size {first.batch_size}, temperature {first.temperature:g}"
    out.table(epochs.verdict, "", table, "", f"{scope}; losses in {first.unit}")
    out.result(epochs.model_dump(mode="json"))
