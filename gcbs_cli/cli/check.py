"""`gcbs check`: may this plan be trained on."""

import typer

from gcbs_cli.cli.inputs import open_inputs
from gcbs_cli.cli.output import Output, say
from gcbs_cli.plan_file.plans import check_plan, read_plan
from gcbs_cli.settings.others import Check, Inputs


def check(settings: Check) -> None:
    """Check, print the findings, and exit with 1 when something is wrong."""
    out = Output(settings)
    perm, manifest = read_plan(settings.perm)
    stream = None
    if settings.x is not None:
        stream = open_inputs(settings.only(Inputs), out, manifest)
        stream.read()
    findings = list(check_plan(perm, manifest, stream))
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
