"""How often the 95 % intervals of `gcbs report --rows` hold the figure of the whole report.

    python benchmarks/intervals.py codedoc --seeds 200 --batches 30 100 -k 16 64

Prints a table: of so many seeds, the share whose interval holds the figure. Of 200 seeds, a true 95 % gives 92 to 98.
"""

import argparse
from pathlib import Path

from gcbs_cli.data.opening import open_pair
from gcbs_cli.data.reading import PairStream
from gcbs_cli.planning.plan import make_plan
from gcbs_cli.reports.build import make_reports
from gcbs_cli.reports.sampled import sampled_report
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.report import ReportSettings

FIGURES = ("loss.global", "loss.plan", "loss.random_mean", "gap.plan", "gap.random_mean", "gap.reduction")


def main() -> None:
    """A line for each batch size and number of batches, as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--batches", type=int, nargs="+", default=[30, 100])
    parser.add_argument("-k", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--trials", type=int, default=100, help="random orders of the whole report")
    asked = parser.parse_args()
    stream = PairStream(*open_pair(str(asked.folder / "x.npy"), str(asked.folder / "y.npy")))
    pair = stream.read()
    print("| k | batches | " + " | ".join(f"`{figure}`" for figure in FIGURES) + " |")
    print("|---:" * (2 + len(FIGURES)) + "|")
    for size in asked.k:
        perm = make_plan(pair, PlanSettings(batch_size=size)).perm
        settings = ReportSettings(batch_sizes=(size,), drop_last=True)
        whole = make_reports(pair, perm, settings.changed(trials=asked.trials))[0]
        for batches in asked.batches:
            held = dict.fromkeys(FIGURES, 0)
            for seed in range(asked.seeds):
                found = sampled_report(stream, perm, batches * size, settings.changed(seed=seed))
                for figure in FIGURES:
                    estimate = found.at(figure)
                    held[figure] += estimate.low <= whole.at(figure) <= estimate.high
            shares = " | ".join(f"{count / asked.seeds:.1%}" for count in held.values())
            print(f"| {size} | {batches} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
