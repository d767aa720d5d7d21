"""`gcbs apply`: data in plan order, for trainers that read from front to back."""

import time
from typing import Annotated

import typer

from gcbs_cli.cli import options
from gcbs_cli.cli.edge import at_the_edge


@at_the_edge
def apply(
    perm: Annotated[str, typer.Argument(metavar="PERM", help="The permutation; - reads indices from stdin.")],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A .parquet, .jsonl, .csv or .npy file, or a folder or glob of such shards."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help="A file (the input's suffix is added where it has none); for shards a new folder.",
            rich_help_panel=options.OUTPUT_PANEL,
        ),
    ],
    header: Annotated[
        bool, typer.Option("--header/--no-header", help="The first record of a CSV file names its columns.")
    ] = True,
    max_memory: Annotated[
        str | None,
        typer.Option(
            "--max-memory",
            help="Memory for rows, such as 2G; larger data passes through temporary files beside the output. "
            "[default: 512M]",
            rich_help_panel=options.WORK_PANEL,
            show_default=False,
        ),
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    force: options.Force = False,
) -> None:
    """Write data in plan order: batch b is then rows b·k to (b+1)·k.

    Rows are copied byte for byte, by two passes in sequence, in bounded memory. Shards keep their names and their
    numbers of rows. A last line without a line end gets one. The output appears whole or not at all.

    Examples:

      gcbs apply perm.npy pairs.jsonl -o reordered.jsonl

      gcbs plan x.npy y.npy -o - | gcbs apply - shards/ -o reordered
    """
    from gcbs_cli.apply.files import find_files, output_path
    from gcbs_cli.apply.reorder import DEFAULT_MEMORY, reorder
    from gcbs_cli.cli.output import Output, choose_mode
    from gcbs_cli.plan_file.check import load_plan
    from gcbs_cli.plan_file.manifest import plan_files
    from gcbs_cli.system.limits import parse_size

    began = time.perf_counter()
    out = Output(choose_mode(as_json=as_json, quiet=quiet))
    memory = DEFAULT_MEMORY if max_memory is None else parse_size(max_memory, "--max-memory")
    files = find_files(data)
    target = output_path(files, output, plan_files(perm), force=force)
    if not files.single:
        out.note(f"{data}: rows counted in this order: {files.named}")
    done = reorder(load_plan(perm).perm, files, target, memory=memory, header=header)
    seconds = time.perf_counter() - began
    rows = sum(done.rows)
    out.table(f"{rows:,} rows in plan order written to {target} ({len(done.paths)} files, {seconds:.1f} s)")
    out.result(
        {
            "output": str(target),
            "files": [{"path": str(path), "rows": count} for path, count in zip(done.paths, done.rows, strict=True)],
            "rows": rows,
            "buckets": done.buckets,
            "seconds": seconds,
        }
    )
