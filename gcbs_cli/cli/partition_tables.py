"""What a plan in parts was, for people."""

from typing import TYPE_CHECKING

from gcbs_cli.cli.tables import quality_lines, rank_lines, two_columns
from gcbs_cli.plan_file.manifest import ManifestEntry

if TYPE_CHECKING:
    from rich.console import RenderableType


def partitioned_table(entry: ManifestEntry, output: str, seconds: float) -> "RenderableType":
    """What `gcbs plan --partitions` did, one line a figure."""
    parts = entry.partitions
    assert parts is not None
    full, rest = divmod(entry.rows, entry.batch_size)
    batches = f"{full:,} of {entry.batch_size}" + (f" and one of {rest}" if rest else "")
    lines = [
        ("pairs", f"{entry.rows:,} × {entry.inputs.x.dim}"),
        ("batches", batches),
        *rank_lines(entry),
        ("method", entry.method),
        ("parts", f"{parts.parts:,} of {min(parts.sizes):,} to {max(parts.sizes):,} rows"),
        ("rows moved", f"{parts.moved:,}, so that parts are whole batches"),
    ]
    if parts.thresholds:
        lines.append(("thresholds", f"{min(parts.thresholds):.4f} to {max(parts.thresholds):.4f}"))
    if parts.edges:
        lines += [
            ("edges inside parts", f"{parts.edges:,}"),
            ("rows without an edge", f"{parts.isolated:,} ({parts.isolated / entry.rows:.1%})"),
            ("largest degree", f"{parts.max_degree:,}"),
            ("inside batches", f"{parts.in_batch_edge_share or 0.0:.2%} of these edges"),
        ]
    lines += quality_lines(entry)
    steps = ", ".join(f"{name} {value:.2f}" for name, value in entry.timings.items())
    lines += [("seconds", f"{seconds:.2f} ({steps})"), ("written", "stdout" if output == "-" else output)]
    return two_columns(lines)
