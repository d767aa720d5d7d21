"""`gcbs apply`: data in plan order, for trainers that read from front to back."""

import time

from gcbs_cli.apply.reorder import find_files, output_path, reorder, targets
from gcbs_cli.cli.inputs import files_read, say_order
from gcbs_cli.cli.output import Output
from gcbs_cli.plan_file.plans import load_plan
from gcbs_cli.settings.others import Apply


def apply(settings: Apply) -> None:
    """Write the data in plan order."""
    began = time.perf_counter()
    out = Output(settings, settings.output)
    files = find_files(settings.data)
    target = output_path(files, settings.output, files_read(settings), force=settings.force)
    say_order(settings.data, [file.path for file in files], out)
    order = load_plan(settings.perm).perm
    counts = reorder(order, files, target, memory=settings.max_memory, header=settings.header, force=settings.force)
    seconds = time.perf_counter() - began
    rows = sum(counts)
    written = zip(targets(files, target), counts, strict=True)
    out.table(f"{rows:,} rows in plan order written to {target} ({len(counts)} files, {seconds:.1f} s)")
    out.result(
        {
            "output": str(target),
            "files": [{"path": str(path), "rows": count} for path, count in written],
            "rows": rows,
            "seconds": seconds,
        }
    )
