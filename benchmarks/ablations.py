"""The effect of the quantile, of the batch size and of N on a plan: the ablations of GCBS's paper on your embeddings.

`per-row` is where the default of --per-row comes from: the gap reduction by entries a row and N. Up to all rows, N are
consecutive rows, as many blocks of them as there are, 16 at most; beyond, the rest are the normalised sums of two
random pairs, (x_i + x_j, y_i + y_j).

Columns are those of `gcbs report`; under `rows`, seconds stand beside the paper's, which are for random rows of 768
columns and 512 entries a row on one A40.
Usage: ``python benchmarks/ablations.py quantile codedoc``, or ``batch-size``, ``rows`` or ``per-row`` (a folder with
x.npy and y.npy, as ``benchmarks/make_codedoc.py`` makes); ``--values`` for others than the usual ones,
``--plan graph=top-m refine=true`` for another plan than RCM.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from measuring import markdown_table, read_data
from scaling import PAPER_SECONDS

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.reports.basis import ReportInputs
from gcbs_cli.reports.figures import FIGURES
from gcbs_cli.reports.losses import OrderReports
from gcbs_cli.reports.schema import GapReport
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings

VALUES: dict[str, list[float]] = {
    "quantile": [0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999],
    "batch-size": [16, 32, 64, 128, 256, 512],
    "rows": [1_000, 2_500, 5_000, 10_000, 20_000],
    "per-row": [8, 16, 25, 32, 48, 64],
}
BLOCK_ROWS = [300, 1_500, 5_000, 12_000, 24_927, 100_000]
MOST_BLOCKS = 16
COLUMNS = {
    "quantile": ["graph.edges", "graph.isolated", "bandwidth.plan", "in_batch_edge_share.plan"],
    "batch-size": ["gap.random_mean", "gap.plan", "bounds.translation", "bounds.logsumexp", "accuracy.plan"],
    "rows": ["gap.random_mean", "gap.plan"],
}
ALWAYS = ["gap.reduction", "gap.closed_share", "gap.masked.reduction", "false_negatives.suspected_pairs"]


def trials(effect: str, pair: PairedRows, values: list[float], options: dict[str, Any]) -> Iterator[tuple[float, Any]]:
    """Each value with the rows and the plan's settings that it stands for."""
    order = np.random.default_rng(0).permutation(pair.rows)
    for value in values:
        rows, changed = pair, dict(options)
        if effect == "rows":
            chosen = np.sort(order[: int(value)])
            rows = PairedRows(pair.x[chosen], pair.y[chosen])
        else:
            changed[effect.replace("-", "_")] = value if effect == "quantile" else int(value)
        yield value, (rows, PlanSettings(**changed))


def measured(pair: PairedRows, settings: PlanSettings) -> tuple[GapReport, float]:
    """The report on a plan, with the hard pairs of its own quantile, and the plan's seconds."""
    began = time.perf_counter()
    perm = make_plan(pair, settings).perm
    seconds = time.perf_counter() - began
    asked = settings.only(ReportSettings).changed(batch_sizes=settings.batch_size, trials=5)
    inputs = ReportInputs(pair, asked)
    return OrderReports(inputs, asked.losses[0], settings.batch_size).of(perm)[0].report, seconds


def blocks_of(pair: PairedRows, rows: int) -> Iterator[PairedRows]:
    """Consecutive rows, so many at a time; or all rows and sums of random pairs of them, where there are too few."""
    if rows <= pair.rows:
        for start in range(0, min(pair.rows // rows, MOST_BLOCKS) * rows, rows):
            yield PairedRows(pair.x[start : start + rows], pair.y[start : start + rows])
        return
    first, second = np.random.default_rng(0).integers(pair.rows, size=(2, rows - pair.rows))
    sums = [side[first] + side[second] for side in (pair.x, pair.y)]
    sums = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in sums]
    yield PairedRows(np.concatenate([pair.x, sums[0]]), np.concatenate([pair.y, sums[1]]))


def by_entries_a_row(pair: PairedRows, values: list[float], options: dict[str, Any]) -> Iterator[list[str]]:
    """A line for each N: the gap reduction, and the rows without an edge, of plans with so many entries a row."""
    for rows in BLOCK_ROWS:
        reductions, isolated = [], []
        for block in blocks_of(pair, rows):
            plans = [make_plan(block, PlanSettings(per_row=value, **options)) for value in values]
            settings = (
                plans[0].settings.only(ReportSettings).changed(batch_sizes=plans[0].settings.batch_size, trials=5)
            )
            reports = OrderReports(ReportInputs(block, settings), settings.losses[0], settings.batch_sizes[0])
            reductions.append([reports.of(plan.perm)[0].report.gap.reduction or 0.0 for plan in plans])
            isolated.append([plan.figures.graph.isolated / rows for plan in plans if plan.figures is not None])
        means, deviations = np.mean(reductions, axis=0), np.std(reductions, axis=0)
        alone = np.mean(isolated, axis=0)
        cells = zip(means, deviations, alone, strict=True)
        yield [f"{rows:,}", str(len(reductions)), *(f"{m:.3f} ± {d:.3f}, {a:.1%}" for m, d, a in cells)]


def main(arguments: list[str] | None = None) -> None:
    """Print a table with a line for each value, as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("effect", choices=list(VALUES))
    parser.add_argument("data", type=Path, help="folder with x.npy and y.npy")
    parser.add_argument("--values", type=float, nargs="+", help="other values than the usual ones")
    parser.add_argument("--plan", nargs="*", default=[], metavar="NAME=VALUE", help="settings of all plans")
    asked = parser.parse_args(arguments)
    pair, effect = read_data(asked.data), asked.effect
    options = dict(word.split("=") for word in asked.plan)
    if effect == "per-row":
        values = asked.values or VALUES[effect]
        print(markdown_table(["rows", "blocks", *(f"m = {value:g}" for value in values)], []), flush=True)
        for cells in by_entries_a_row(pair, values, options):
            print(f"| {' | '.join(cells)} |", flush=True)
        return
    figures = [
        (path, figure)
        for path in COLUMNS[effect] + ALWAYS
        for figure in FIGURES
        if path in (figure.path, figure.random)
    ]
    names = [figure.short + ", random" * (path == figure.random) for path, figure in figures]
    header = [effect, *names, "seconds", *["paper, seconds"] * (effect == "rows")]
    values = [value for value in asked.values or VALUES[effect] if effect != "rows" or value <= pair.rows]
    print(markdown_table(header, []), flush=True)
    for value, (rows, settings) in trials(effect, pair, values, options):
        report, seconds = measured(rows, settings)
        cells = [f"{value:,g}", *(figure.text(report.at(path)) for path, figure in figures), f"{seconds:.2f}"]
        if effect == "rows":
            cells.append(f"{PAPER_SECONDS[int(value)]:,.1f}" if value in PAPER_SECONDS else "–")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
