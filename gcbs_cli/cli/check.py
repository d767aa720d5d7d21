"""`gcbs check`: may this plan be trained on."""

import typer

from gcbs_cli.cli.inputs import open_inputs
from gcbs_cli.cli.output import Output, say
from gcbs_cli.plan_file.manifest import entry_for, read_entries
from gcbs_cli.plan_file.permutation import read_permutation
from gcbs_cli.plan_file.plans import check_plan
from gcbs_cli.settings.others import Check, Inputs


def check(settings: Check) -> None:
    """Check, print what was found, and exit with 1 when something is wrong."""
    out = Output(settings)
    order = read_permutation(settings.perm)
    entries = read_entries(settings.perm)
    entry = entry_for(entries, order) or next(iter(entries), None)  # which is then found to be another plan's
    stream = None
    if settings.x is not None:
        stream = open_inputs(settings.only(Inputs), out, entries)
        stream.normalize = entry is None or entry.normalize
        stream.read()
        stream.check_unchanged()
    findings = list(check_plan(order, entry, stream))
    wrong = any(level == "error" for level, _ in findings)
    for level, message in findings:
        if level == "ok":
            out.table(f"ok       {message}")
        elif level == "warning":
            out.warn(message)
        else:
            say(f"error: {message}")
    out.result({"ok": not wrong, "findings": [finding._asdict() for finding in findings]})
    if wrong:
        raise typer.Exit(1)
