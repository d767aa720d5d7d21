"""`gcbs check`: may this plan be trained on."""

from pathlib import Path
from typing import Annotated

import typer

from gcbs_cli.cli import options
from gcbs_cli.cli.edge import at_the_edge


@at_the_edge
def check(
    perm: Annotated[str, typer.Argument(metavar="PERM", help="The permutation; - reads indices from stdin.")],
    x: Annotated[str | None, typer.Argument(metavar="X", help="Embeddings it should belong to.")] = None,
    y: options.YPath = None,
    x_column: options.XColumn = None,
    y_column: options.YColumn = None,
    dtype: options.Dtype = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Check a plan: a permutation of 0..N−1, its manifest its own, made from this data.

    Exit code 0 when nothing is wrong, 1 when something is.

    Examples:

      gcbs check perm.npy

      gcbs check perm.npy x.npy y.npy
    """
    from gcbs_cli.cli.inputs import InputOptions, read_pair
    from gcbs_cli.cli.output import Output, choose_mode
    from gcbs_cli.plan_file.check import check_plan, entry_to_check
    from gcbs_cli.plan_file.manifest import planned_inputs, read_manifest
    from gcbs_cli.plan_file.permutation import read_permutation

    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    order = read_permutation(perm)
    manifest = None if perm == "-" else read_manifest(Path(perm))
    entry = None if perm == "-" else entry_to_check(manifest, order)
    fingerprints: tuple[str | None, str | None] = (None, None)
    rows = None
    if x is not None:
        normalize = entry is None or entry.normalize
        inputs = InputOptions(x, y, x_column, y_column, dtype.value if dtype else None, normalize)
        pair = read_pair(inputs.open(planned_inputs(manifest)), inputs, out)
        fingerprints, rows = (pair.x.fingerprint, pair.y.fingerprint), pair.x.rows
    findings = check_plan(order, entry, *fingerprints, rows)
    wrong = any(finding.level == "error" for finding in findings)
    for finding in findings:
        if finding.level == "ok":
            out.table(f"ok       {finding.message}")
        else:
            out.warning(finding.message) if finding.level == "warning" else out.error(finding.message)
    out.result({"ok": not wrong, "findings": [{"level": f.level, "message": f.message} for f in findings]})
    if wrong:
        raise typer.Exit(1)
