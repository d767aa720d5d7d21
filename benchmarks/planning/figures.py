"""Figures of the first plan of every rule, and which of them foretells what training gains.

python benchmarks/planning/figures.py corpora     # a line a plan in figures.jsonl, then the table

Each figure is computed on the embeddings that training starts from, k 64, tau 0.05, both directions. A pair of plans is
resolvable where their test MRR × 100 differs by more than 0.5 and by more than two standard errors over the seeds.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from plans import BATCH_SIZE, PLANS, TEMPERATURE, VARIANTS, plan_named, plans_for
from records import RESULTS, Record, add_record, by_seed, gains, markdown, read_records
from trial import CORPORA, ROWS, trial_of

from gcbs_cli.comparison.trial import MOST_EPOCHS, TrialSettings, order_function
from gcbs_cli.data.opening import open_arrays
from gcbs_cli.settings.plan import DEFAULT_MARGIN, DEFAULT_PER_ROW

FIGURES_OF_PLANS = Path(__file__).with_name("figures.jsonl")
SEEDS = (1, 2)
PROBED_BATCHES = 40
"""Batches whose gradient and rank are computed."""
LEAST_DIFFERENCE = 0.5
"""MRR × 100; a smaller difference between two plans is not resolved."""
CHOSEN_ON = ("code", "words")
"""Corpora by which a figure is chosen; the others tell how good it is."""
BOOTSTRAPS = 2000
TILE_ROWS = 1024
FIGURES = {
    "gap": (-1, "gap closed"),
    "masked_loss": (1, "L_train without suspects"),
    "learnable": (1, "learnable share"),
    "hard_rows": (-1, "few rows with a too-hard negative"),
    "hard_weight": (-1, "little weight on too-hard negatives"),
    "filtered": (1, "difficulty, false negatives filtered"),
    "effective_rank": (1, "effective rank of a batch"),
    "gradient": (1, "cosine with the gradient over all rows"),
}
"""Whether more (1) or less (−1) of a figure is thought better, and what the table calls it."""

Rows = NDArray[np.float32]
Order = NDArray[np.int64]


@dataclass(frozen=True)
class Sides:
    """Both sides of the training rows, their log-sums over all rows, and the threshold of suspected pairs."""

    x: Rows
    y: Rows
    log_sums: tuple[NDArray[np.float64], NDArray[np.float64]]
    threshold: float


def read_sides(folder: Path, rows: Order) -> Sides:
    """One pass over all pairs of these rows; the threshold is the default one, from a sample of them."""
    pairs = open_arrays(*(np.load(folder / f"{side}.npy")[:ROWS] for side in "xy")).read()
    x, y = pairs.x[rows], pairs.y[rows]
    sums = np.zeros((2, len(x)))
    for start in range(0, len(x), TILE_ROWS):
        tile = np.exp((x[start : start + TILE_ROWS] @ y.T) / TEMPERATURE, dtype=np.float64)
        sums[0, start : start + TILE_ROWS] = tile.sum(axis=1)
        sums[1] += tile.sum(axis=0)
    sample = np.random.default_rng(0).choice(len(x), min(1500, len(x)), replace=False)
    threshold = np.quantile(x[sample] @ y.T, 1 - DEFAULT_PER_ROW / (len(x) - 1))
    return Sides(x, y, (np.log(sums[0]), np.log(sums[1])), float(threshold))


def figures_of(sides: Sides, perm: Order, negatives: Order | None) -> dict[str, float]:
    """Every figure of one plan; negatives: (N, l) rows whose y each row brings along."""
    totals = dict.fromkeys(("gap", "masked_loss", "learnable", "hard_rows", "hard_weight", "filtered"), 0.0)
    starts = range(0, len(perm), BATCH_SIZE)
    probed = set(starts[:: max(1, len(starts) // PROBED_BATCHES)])
    ranks, cosines = [], []
    for start in starts:
        rows = perm[start : start + BATCH_SIZE]
        keys = rows if negatives is None else np.concatenate([rows, negatives[rows].ravel()])
        for name, value in _of_batch(sides, rows, keys):
            totals[name] += value
        if start in probed:
            ranks.append(_effective_rank(np.concatenate([sides.x[rows], sides.y[rows]])))
            cosines.append(_gradient_cosine(sides, rows, keys))
    means = {name: value / (2 * len(perm)) for name, value in totals.items()}
    return {**means, "effective_rank": float(np.mean(ranks)), "gradient": float(np.mean(cosines))}


def _of_batch(sides: Sides, rows: Order, keys: Order) -> Iterator[tuple[str, float]]:
    """Sums over the rows of a batch, for each direction."""
    own = np.arange(len(rows))
    for side, (queries, answers, seen) in enumerate(((sides.x, sides.y, keys), (sides.y, sides.x, rows))):
        similar = (queries[rows] @ answers[seen].T).astype(np.float64)
        positive = similar[own, own][:, None]
        other = seen[None, :] != rows[:, None]  # a mined negative may be the row's own answer
        weight = np.where(other, np.exp(similar / TEMPERATURE), 0.0)
        weight[own, own] = np.exp(positive[:, 0] / TEMPERATURE)
        total = weight.sum(axis=1)
        learnable = other & (similar < positive)
        hard = other & (similar >= positive)
        suspected = other & (similar >= sides.threshold) & (similar >= DEFAULT_MARGIN * positive)
        yield "gap", float((sides.log_sums[side][rows] - np.log(total)).sum())
        yield (
            "masked_loss",
            float((np.log(np.where(suspected, 0.0, weight).sum(axis=1)) - positive[:, 0] / TEMPERATURE).sum()),
        )
        yield "learnable", float((np.where(learnable, weight, 0.0).sum(axis=1) / total).sum())
        yield "hard_rows", float(hard.any(axis=1).sum())
        yield "hard_weight", float((np.where(hard, weight, 0.0).sum(axis=1) / total).sum())
        yield (
            "filtered",
            float((np.where(learnable, similar, 0.0).sum(axis=1) / np.maximum(learnable.sum(axis=1), 1)).sum()),
        )


def _effective_rank(rows: Rows) -> float:
    """exp of the entropy of the singular values (Roy and Vetterli, 2007)."""
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def _gradient_cosine(sides: Sides, rows: Order, keys: Order) -> float:
    """Cosine of the gradient of a linear head in the batch with that of the same rows against all keys."""
    gradients = []
    for seen in (sides.y[keys], sides.y):
        shares = np.exp((sides.x[rows] @ seen.T) / TEMPERATURE, dtype=np.float64)
        shares /= shares.sum(axis=1, keepdims=True)
        gradients.append(sides.x[rows].T @ (shares @ seen - sides.y[rows]))
    batch, full = gradients
    return float((batch * full).sum() / (np.linalg.norm(batch) * np.linalg.norm(full)))


def resolvable(records: Sequence[Record], corpus: str, plans: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Pairs of plans that training tells apart, and whether the first trained better."""
    for first, second in combinations(plans, 2):
        ours, theirs = (by_seed(records, corpus, name) for name in (first, second))
        differences = np.array([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())])
        if len(differences) > 1:
            error = differences.std(ddof=1) / len(differences) ** 0.5
            if abs(differences.mean()) > max(2 * error, LEAST_DIFFERENCE):
                yield first, second, bool(differences.mean() > 0)


def table(records: Sequence[Record], figures: Sequence[Record]) -> str:
    """Rank correlation with the gain in each corpus, and the share of resolvable pairs that a figure orders right."""
    from scipy.stats import spearmanr

    lines = []
    counts: dict[str, int] = {}
    for name, (sign, words) in FIGURES.items():
        right: dict[str, list[bool]] = {}
        cells = []
        for corpus in CORPORA:
            plans = [plan for plan in [*PLANS, *VARIANTS] if gains(records, corpus, plan)]
            values = {plan: sign * np.mean(list(by_seed(figures, corpus, plan, name).values())) for plan in plans}
            trained = [np.mean(gains(records, corpus, plan)) for plan in plans]
            correlation = spearmanr(list(values.values()), trained).statistic
            pairs = resolvable(records, corpus, plans)
            right[corpus] = [bool(values[first] > values[second]) == better for first, second, better in pairs]
            counts[corpus] = len(right[corpus])
            cells.append(f"{correlation:.2f}; {np.mean(right[corpus]):.0%}".replace("-", "−"))
        told = [corpus for corpus in CORPORA if corpus not in CHOSEN_ON]
        draws = np.random.default_rng(0).choice(CORPORA, (BOOTSTRAPS, len(CORPORA)))
        low, high = np.quantile([_share(right, draw) for draw in draws], [0.025, 0.975])
        cells += [f"{_share(right, CHOSEN_ON):.0%}", f"{_share(right, told):.0%}", f"{low:.0%}–{high:.0%}"]
        lines.append([words, *cells])
    head = ["figure", *(f"{corpus} ({counts[corpus]})" for corpus in CORPORA), " and ".join(CHOSEN_ON), "the others"]
    return markdown([*head, "95 %, over corpora"], lines)


def _share(right: dict[str, list[bool]], corpora: Sequence[str]) -> float:
    return float(np.mean(np.concatenate([right[corpus] for corpus in corpora])))


def main(arguments: list[str] | None = None) -> None:
    """Compute what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="folder of the corpora's folders")
    parser.add_argument("--out", type=Path, default=FIGURES_OF_PLANS)
    options = parser.parse_args(arguments)
    for corpus in CORPORA:
        trial = trial_of(options.data / corpus, TrialSettings(BATCH_SIZE, TEMPERATURE))
        rows = np.sort(trial.split.train)
        sides: Sides | None = None
        known = {(run["plan"], run["seed"]) for run in read_records(options.out) if run["corpus"] == corpus}
        with_texts = (options.data / corpus / "texts.parquet").exists()
        for seed in SEEDS:
            for name in plans_for([*PLANS, *VARIANTS], texts=with_texts):
                if (name, seed) in known:
                    continue
                sides = sides or read_sides(options.data / corpus, rows)
                plan = plan_named(name)
                make = order_function(plan, **trial.row_facts(rows))
                order: Any = make(sides.x, sides.y, seed * MOST_EPOCHS)
                perm, negatives = order if isinstance(order, tuple) else (order, None)
                figures = figures_of(sides, perm, negatives)
                rounded = {figure: round(value, 5) for figure, value in figures.items()}
                add_record(options.out, {"corpus": corpus, "plan": name, "seed": seed, **rounded})
    print(table(read_records(RESULTS), read_records(options.out)))


if __name__ == "__main__":
    main()
