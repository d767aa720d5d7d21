"""Print the benchmark's tables as Markdown: the trial on every corpus, whole encoders, and how far the two agree."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from plans import PEERS, PLANS, VARIANTS, VARIED
from records import ENCODER_RESULTS, RESULTS, Record, by_seed, gains, markdown, read_records, spread
from trial import ALL_ROWS, CORPORA

LEAST_PLANS = 3
"""Beside random; a rank correlation of fewer says nothing."""


def lead_table(records: Sequence[Record]) -> str:
    """Gain of MRR × 100 over random batches by corpus, best on average first, plans without all corpora last."""
    corpora = [name for name in CORPORA if by_seed(records, name, "random")]
    ranked, lines = {}, {}
    for plan in [*PLANS[1:], ALL_ROWS]:
        by_corpus = [gains(records, corpus, plan) for corpus in corpora]
        means = [float(np.mean(runs)) for runs in by_corpus if runs]
        if means:
            ranked[plan] = len(means), float(np.mean(means))
            counts = sorted({len(runs) for runs in by_corpus if runs})
            lines[plan] = [
                plan,
                *(spread(runs) for runs in by_corpus),
                spread([ranked[plan][1]]),
                spread([min(means)]),
                "–".join(str(count) for count in dict.fromkeys([counts[0], counts[-1]])),
                spread([one for corpus in corpora for one in at_equal_seconds(records, corpus, plan)], 1),
                _seconds_a_run(records, plan),
            ]
    levels = [f"({np.mean(list(by_seed(records, corpus, 'random').values())):.2f})" for corpus in corpora]
    head = ["plan", *corpora, "mean", "worst", "seeds", "at equal seconds", "processor s/run"]
    random = ["random (its MRR)", *levels, "", "", "", "", _seconds_a_run(records, "random")]
    return markdown(
        head, [*(lines[plan] for plan in sorted(ranked, key=lambda plan: ranked[plan], reverse=True)), random]
    )


def variant_table(records: Sequence[Record]) -> str:
    """Gain of MRR × 100 over the preset, made by METIS, of what differs from it in one thing."""
    lines = []
    for plan in [name for name in VARIANTS if name != VARIED]:
        by_corpus = [gains(records, corpus, plan, VARIED) for corpus in CORPORA]
        means = [float(np.mean(runs)) for runs in by_corpus if runs]
        if means:
            lines.append([plan, *(spread(runs) for runs in by_corpus), spread(means), str(sum(map(len, by_corpus)))])
    return markdown(["changed", *CORPORA, "mean", "runs"], lines)


def _seconds_a_run(records: Sequence[Record], plan: str) -> str:
    return f"{np.median([run['processor_seconds'] for run in records if run['plan'] == plan]):.0f}"


def at_equal_seconds(records: Sequence[Record], corpus: str, plan: str) -> list[float]:
    """Validation MRR over that of random batches when those have made all their epochs, between epochs by a line."""
    runs, others = (
        {run["seed"]: run for run in records if (run["corpus"], run["plan"]) == (corpus, name)}
        for name in (plan, "random")
    )
    found = []
    for seed in runs.keys() & others.keys():
        ours, theirs = runs[seed]["validation"], others[seed]["validation"]
        found.append(float(np.interp(_clock(others[seed])[-1], _clock(runs[seed]), ours)) - theirs[-1])
    return found


def _clock(run: Record) -> list[float]:
    """Processor seconds at the start and after each epoch; where these were not noted, all epochs took the same."""
    epochs = np.arange(len(run["validation"]))
    return list(run.get("clock", epochs * _seconds(run)))


def _seconds(run: Record) -> float:
    """Processor seconds of a trial, or those of an encoder's epoch; random batches need no embedding before it."""
    if "processor_seconds" in run:
        return float(run["processor_seconds"])
    embedding = 0.0 if run["plan"] == "random" else run["seconds"]["embed"]
    return float(embedding + run["seconds"]["plan"] + run["seconds"]["train"])


def encoder_table(records: Sequence[Record], trials: Sequence[Record]) -> str:
    """Gains of whole encoders beside those of the trial, what an epoch costs, and the rank correlation of the two."""
    corpora = list(dict.fromkeys(run["corpus"] for run in records))
    plans = [plan for plan in PLANS if any(run["plan"] == plan for run in records)]
    lines = {plan: [plan] for plan in plans}
    head, agreement = ["plan"], []
    for corpus in corpora:
        head += [f"{corpus}, encoder", "trial", "at equal seconds", "s/epoch"]
        pairs = []
        for plan in plans:
            whole, heads = gains(records, corpus, plan), gains(trials, corpus, plan)
            runs = [run for run in records if (run["corpus"], run["plan"]) == (corpus, plan)]
            cost = f"{np.mean([_seconds(run) for run in runs]):.0f}" if runs else "–"
            if plan == "random":
                lines[plan] += [f"({np.mean([run['mrr'] for run in runs]):.2f})", "", "", cost]
                continue
            lines[plan] += [spread(whole), spread(heads), spread(at_equal_seconds(records, corpus, plan), 1), cost]
            if whole and heads:
                pairs.append((float(np.mean(whole)), float(np.mean(heads))))
        seeds = max(run["seed"] for run in records if run["corpus"] == corpus)
        agreement.append(f"- {corpus} ({seeds} seed{'s' * (seeds > 1)}): {_agreement(pairs)}")
    return "\n\n".join([markdown(head, lines.values()), "\n".join(agreement)]) if records else ""


def ways_table(records: Sequence[Record]) -> str:
    """Gains of plans by where their embeddings come from, at equal epochs and at equal seconds, and what they cost."""
    lines = []
    for corpus in dict.fromkeys(run["corpus"] for run in records):
        runs = [run for run in records if run["corpus"] == corpus]
        random = by_seed(runs, corpus, "random")
        lines.append([f"{corpus}: random", f"({np.mean(list(random.values())):.2f})", "", *_cost(runs, "random")])
        for plan in dict.fromkeys(run["plan"] for run in runs if run["plan"] != "random"):
            equal = at_equal_seconds(runs, corpus, plan)
            lines.append([plan, spread(gains(runs, corpus, plan)), spread(equal), *_cost(runs, plan)])
    return markdown(["encoder: plan", "at equal epochs", "at equal seconds", "plan and pass, s", "training, s"], lines)


def _cost(runs: Sequence[Record], plan: str) -> list[str]:
    """Mean processor seconds an epoch: a plan with its pass, and training."""
    seconds = [run["seconds"] for run in runs if run["plan"] == plan]
    costs = [part["plan"] + part["embed"] for part in seconds], [part["train"] for part in seconds]
    return [f"{np.mean(cost):.1f}" for cost in costs]


def short_table(trials: Sequence[Record], encoders: Sequence[Record]) -> str:
    """For the README: GCBS's plan, the preset and the best peer on every corpus, by heads and by whole encoders."""
    columns = [(name, trials, name) for name in CORPORA if by_seed(trials, name, "random")]
    trained = dict.fromkeys(run["corpus"] for run in encoders if len(gains(encoders, run["corpus"], "preset")) > 1)
    columns += [(f"{name}, encoder", encoders, name) for name in trained]
    lines = [
        [name] for name in ("random batches", "GCBS's plan (`gcbs plan`)", "`gcbs plan --preset train`", "best peer")
    ]
    for _, records, corpus in columns:
        lines[0].append(f"{np.mean(list(by_seed(records, corpus, 'random').values())):.1f}")
        lines[1].append(spread(gains(records, corpus, "rcm"), 1))
        lines[2].append(spread(gains(records, corpus, "preset"), 1))
        peers = {name: found for name in PEERS if (found := gains(records, corpus, name))}
        best = max(peers, key=lambda name: float(np.mean(peers[name])))
        lines[3].append(f"{spread(peers[best], 1)} {best}")
    return markdown(["MRR × 100", *(name for name, *_ in columns)], lines)


def _agreement(pairs: Sequence[tuple[float, float]]) -> str:
    if len(pairs) < LEAST_PLANS:
        return f"rank correlation with the trial not stated for {len(pairs)} plans"
    from scipy.stats import spearmanr

    whole, heads = zip((0.0, 0.0), *pairs, strict=True)
    found = spearmanr(whole, heads).statistic
    return f"rank correlation with the trial {found:.2f} (random and {len(pairs)} plans)".replace("-", "−")


def main(arguments: list[str] | None = None) -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=Path, default=RESULTS)
    parser.add_argument("--encoders", type=Path, default=ENCODER_RESULTS)
    parser.add_argument("--ways", type=Path, help="runs of encoders by where embeddings come from: their table alone")
    parser.add_argument("--short", action="store_true", help="the table of the README")
    options = parser.parse_args(arguments)
    trials, encoders = read_records(options.trials), read_records(options.encoders)
    if options.ways:
        print(ways_table(read_records(options.ways)))
        return
    if options.short:
        print(short_table(trials, encoders))
        return
    print(lead_table(trials), variant_table(trials), encoder_table(encoders, trials), sep="\n\n")


if __name__ == "__main__":
    main()
