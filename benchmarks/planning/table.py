"""Print the benchmark's tables as Markdown: the trial on every corpus, whole encoders, and how far the two agree."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from plans import PLANS
from records import ENCODER_RESULTS, RESULTS, Record, by_seed, gains, markdown, read_records, spread
from trial import CORPORA

LEAST_PLANS = 3
"""Beside random; a rank correlation of fewer says nothing."""


def lead_table(records: Sequence[Record]) -> str:
    """Gain of MRR × 100 over random batches by corpus, best plan on average first; seconds an epoch."""
    corpora = [name for name in CORPORA if any(run["corpus"] == name for run in records)]
    found = {}
    for plan in PLANS:
        by_corpus = [gains(records, corpus, plan) for corpus in corpora]
        ran = [runs for runs in by_corpus if runs]
        if ran and plan != "random":
            mean = float(np.mean([np.mean(runs) for runs in ran]))
            worst = min(float(np.mean(runs)) for runs in ran)
            seeds = sorted({len(runs) for runs in ran})
            found[plan] = (
                mean,
                [
                    *(spread(runs) for runs in by_corpus),
                    f"{mean:+.2f}".replace("-", "−"),
                    f"{worst:+.2f}".replace("-", "−"),
                    "–".join(str(number) for number in sorted({seeds[0], seeds[-1]})),
                    f"{_mean(records, plan, 'plan_seconds', corpora):.1f}",
                    f"{_mean(records, plan, 'train_seconds', corpora):.1f}",
                ],
            )
    levels = [
        f"({np.mean(list(by_seed(records, corpus, 'random').values())):.2f})"
        if by_seed(records, corpus, "random")
        else "–"
        for corpus in corpora
    ]
    random = [
        "random (its MRR)",
        *levels,
        "0",
        "0",
        "",
        "0.0",
        f"{_mean(records, 'random', 'train_seconds', corpora):.1f}",
    ]
    lines = [[plan, *cells] for plan, (_, cells) in sorted(found.items(), key=lambda item: -item[1][0])]
    head = ["plan", *corpora, "mean", "worst", "seeds", "planning, s/epoch", "training, s/epoch"]
    return markdown(head, [*lines, random])


def _mean(records: Sequence[Record], plan: str, key: str, corpora: Sequence[str]) -> float:
    return float(np.median([run[key] for run in records if run["plan"] == plan and run["corpus"] in corpora]))


def time_table(records: Sequence[Record]) -> str:
    """Validation MRR over that of random batches, at the end, and when random batches have made all their epochs."""
    lines = []
    for plan in PLANS[1:]:
        ends, same = [], []
        for corpus in CORPORA:
            runs, others = (
                {run["seed"]: run for run in records if (run["corpus"], run["plan"]) == (corpus, name)}
                for name in (plan, "random")
            )
            for seed in runs.keys() & others.keys():
                seconds, limit = _epoch_seconds(runs[seed]), _epoch_seconds(others[seed])
                last = len(others[seed]["validation"]) - 1
                reached = np.interp(min(last * limit / seconds, last), np.arange(last + 1), runs[seed]["validation"])
                same.append(reached - others[seed]["validation"][-1])
                ends.append(runs[seed]["validation"][-1] - others[seed]["validation"][-1])
        if ends:
            lines.append([plan, spread(ends), spread(same)])
    return markdown(["plan", "after as many epochs", "after as many seconds"], lines)


def _epoch_seconds(run: Record) -> float:
    return float(run["plan_seconds"] + run["train_seconds"])


def encoder_table(records: Sequence[Record], trials: Sequence[Record]) -> str:
    """Gains of whole encoders beside those of the trial, and the rank correlation of the two."""
    blocks = []
    for corpus in dict.fromkeys(run["corpus"] for run in records):
        lines, pairs = [], []
        for plan in dict.fromkeys(run["plan"] for run in records if run["corpus"] == corpus):
            whole, heads = gains(records, corpus, plan), gains(trials, corpus, plan)
            level = list(by_seed(records, corpus, plan).values())
            if whole and heads:
                pairs.append((float(np.mean(whole)), float(np.mean(heads))))
            runs = [run["seconds"] for run in records if (run["corpus"], run["plan"]) == (corpus, plan)]
            seconds = [f"{np.mean([run[part] for run in runs]):.1f}" for part in ("embed", "plan", "train")]
            shown = ["", ""] if plan == "random" else [spread(whole), spread(heads)]
            lines.append([plan, str(len(level)), f"{np.mean(level):.2f}", *shown, *seconds])
        head = [corpus, "seeds", "MRR", "− random", "by the trial", "embedding, s/epoch", "planning", "training"]
        blocks += [markdown(head, lines), _agreement(pairs)]
    return "\n\n".join(blocks)


def _agreement(pairs: Sequence[tuple[float, float]]) -> str:
    if len(pairs) < LEAST_PLANS:
        return f"Rank correlation with the trial: not stated for {len(pairs)} plans."
    from scipy.stats import spearmanr

    whole, heads = zip((0.0, 0.0), *pairs, strict=True)
    return f"Rank correlation with the trial, random and {len(pairs)} plans: {spearmanr(whole, heads).statistic:.2f}."


def main(arguments: list[str] | None = None) -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=Path, default=RESULTS)
    parser.add_argument("--encoders", type=Path, default=ENCODER_RESULTS)
    options = parser.parse_args(arguments)
    trials, encoders = read_records(options.trials), read_records(options.encoders)
    print(lead_table(trials), time_table(trials), encoder_table(encoders, trials), sep="\n\n")


if __name__ == "__main__":
    main()
