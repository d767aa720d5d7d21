"""`gcbs demo`: sample data, a plan and its page, with the commands that make them."""

import shlex
from pathlib import Path

from gcbs_cli.cli.output import Output
from gcbs_cli.cli.plan import plan
from gcbs_cli.cli.report import report
from gcbs_cli.plan_file import writing
from gcbs_cli.plan_file.plans import check_plan_output
from gcbs_cli.settings.others import Demo, Plan, Report, Written

PACKAGE = Path(__file__).resolve().parents[1]
SAMPLES = (PACKAGE / "sample_data" / "pairs.parquet", PACKAGE.parent / "sample_data" / "pairs.parquet")
"""Where an installed package has the data, and where a checkout has it."""


def demo(settings: Demo) -> None:
    """Write the data, plan and report, and show each command before it is run."""
    out = Output(settings)
    folder = Path(settings.folder)
    data, perm, page = (str(folder / name) for name in ("pairs.parquet", "perm.npy", "report.html"))
    with writing.explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
    check_plan_output(perm, {}, [data, page], force=settings.force)
    sample = next(path for path in SAMPLES if path.exists())
    with writing.file(Path(data), force=settings.force) as output:
        output.write(sample.read_bytes())
    shared = dict(settings.only(Written))
    if settings.json_:  # one object in all
        shared |= {"json_": False, "quiet": True}
    out.line(f"{data}: 1,500 functions of Python's standard library, docstring and code as embeddings")
    out.line("\n$ " + shlex.join(["gcbs", "plan", data, "--preset", "train", "-o", perm]))
    plan(Plan(x=data, output=perm, preset="train", **shared))
    out.line("\n$ " + shlex.join(["gcbs", "report", data, "-p", perm, "--html", page]))
    report(Report(x=data, perm=perm, html=page, **shared))
    out.line(f"\nOpen {page} in a browser.")
    out.result({"data": data, "perm": perm, "html": page})
