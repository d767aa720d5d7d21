"""Train two small heads on frozen embeddings with planned batches, and rank held-out queries.

Two residual heads (d → d) start as the identity; before each epoch the batches are planned from their outputs. Epoch
and settings are chosen on validation queries; the test queries are ranked with --test only.

python benchmarks/make_codedoc.py --out codedoc --rows 30476 --texts
python benchmarks/training/adapters.py run codedoc --out adapters.jsonl --methods random rcm --test
python benchmarks/training/adapters.py table adapters.jsonl
"""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contrastive import (
    choose_device,
    planned_batches,
    processor_name,
    reciprocal_rank,
    suspected,
    suspected_in_batch,
    symmetric_loss,
    working_seconds,
)
from numpy.typing import NDArray
from pair_data import Split, load_embeddings, load_texts, places_in, split_rows
from plan_choices import PLANNED, PlanChoice, Planned, hardest_negatives, plan_epoch, read_choice
from run_records import Record, add_record, by_seed, differences, is_done, markdown, read_records, spread
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import gcbs_cli

REPORT_TRIALS = 3


@dataclass(frozen=True)
class Training:
    """How the heads are trained."""

    train_rows: int = 20_000
    queries: int = 3_000
    epochs: int = 5
    batch_size: int = 64
    temperature: float = 0.05
    learning_rate: float = 3e-4


class ResidualHead(nn.Module):
    """x + W x + b, scaled to unit length; the identity at first."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.change = nn.Linear(dim, dim)
        nn.init.zeros_(self.change.weight)
        nn.init.zeros_(self.change.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) to unit rows (n, d)."""
        return normalize(x + self.change(x), dim=1)


@dataclass
class Heads:
    """The two heads and the frozen embeddings that they read."""

    x_head: ResidualHead
    y_head: ResidualHead
    x: Tensor
    y: Tensor

    def outputs(self, rows: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Unit rows of both sides."""
        at = torch.from_numpy(rows).to(self.x.device)
        return self.x_head(self.x[at]), self.y_head(self.y[at])

    def mean_reciprocal_rank(self, split: Split, queries: NDArray[np.int64]) -> float:
        """MRR × 100 of the queries among all candidates."""
        with torch.no_grad():
            candidates = self.outputs(split.candidates)[1]
            answers = torch.from_numpy(places_in(queries, split.candidates)).to(self.x.device)
            return 100.0 * reciprocal_rank(self.outputs(queries)[0], candidates, answers)


def train_once(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    choice: PlanChoice,
    training: Training,
    seed: int,
    *,
    test: bool = False,
    report: bool = False,
    texts: list[str] | None = None,
) -> Record:
    """One run: MRR on validation (and test) queries before training and after each epoch, and seconds by part.

    `texts`: of all rows, for choices that read them.
    """
    torch.manual_seed(seed)
    device = choose_device()
    split = split_rows(len(x), training.train_rows, training.queries, seed)
    dim = x.shape[1]
    heads = Heads(
        ResidualHead(dim).to(device),
        ResidualHead(dim).to(device),
        torch.from_numpy(x).to(device),
        torch.from_numpy(y).to(device),
    )
    weights = [*heads.x_head.parameters(), *heads.y_head.parameters()]
    optimizer = torch.optim.AdamW(weights, lr=training.learning_rate, fused=True)
    epochs = [_evaluate(heads, split, test=test)]
    for epoch in range(training.epochs):
        with torch.no_grad():
            now = [side.cpu().numpy() for side in heads.outputs(split.train)]
        plan_seed = seed * training.epochs + epoch
        planned = plan_epoch(
            choice,
            now[0],
            now[1],
            batch_size=training.batch_size,
            temperature=training.temperature,
            seed=plan_seed,
            texts=[texts[i] for i in split.train] if choice.reads_texts and texts else None,
        )
        began = working_seconds()
        loss = _train_epoch(heads, optimizer, split, choice, training, planned, now, np.random.default_rng(plan_seed))
        entry = {
            **_evaluate(heads, split, test=test),
            "loss": loss,
            "plan_seconds": planned.seconds,
            "train_seconds": working_seconds() - began,
        }
        if report and epoch in (0, training.epochs - 1):
            entry["report"] = _gap_figures(now, planned, training)
        epochs.append(entry)
    return {"seed": seed, "choice": asdict(choice), "training": asdict(training), "epochs": epochs}


def _evaluate(heads: Heads, split: Split, *, test: bool) -> dict[str, Any]:
    figures = {"validation": heads.mean_reciprocal_rank(split, split.validation)}
    if test:
        figures["test"] = heads.mean_reciprocal_rank(split, split.test)
    return figures


def _train_epoch(
    heads: Heads,
    optimizer: torch.optim.Optimizer,
    split: Split,
    choice: PlanChoice,
    training: Training,
    planned: Planned,
    now: list[NDArray[np.float32]],
    generator: np.random.Generator,
) -> float:
    """Mean training loss, in nats."""
    hardest = hardest_negatives(now[0], now[1]) if choice.mined else None
    seen_now = [torch.from_numpy(side).to(heads.x.device) for side in now]
    losses = []
    for batch in planned_batches(planned.perm, training.batch_size, None if choice.in_plan_order else generator):
        if choice.all_rows:
            ignored = _suspected_among_all(seen_now, batch, choice, planned) if choice.mask_margin else None
            losses.append(_step(optimizer, _loss_over_all(heads, split, batch, training.temperature, ignored)))
            continue
        x, y = heads.outputs(split.train[batch])
        ignored = None
        if choice.mask_margin is not None:
            seen = [side[batch] for side in seen_now]
            ignored = suspected_in_batch(seen[0], seen[1], choice.mask_margin, planned.threshold or -1.0)
        if hardest is not None:
            y = torch.cat([y, heads.outputs(split.train[hardest[batch]])[1]])
        losses.append(_step(optimizer, symmetric_loss(x, y, training.temperature, ignored)))
    return float(np.mean(losses))


def _step(optimizer: torch.optim.Optimizer, loss: Tensor) -> float:
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return float(loss.detach())


def _loss_over_all(
    heads: Heads, split: Split, batch: NDArray[np.int64], temperature: float, ignored: Tensor | None = None
) -> Tensor:
    """Symmetric loss of a batch's rows against all training rows, with gradients through all of them.

    ignored: (k, N) bool, pairs that count neither way.
    """
    x, y = heads.outputs(split.train)
    rows = torch.from_numpy(batch).to(x.device)
    logits = [x[rows] @ y.T / temperature, y[rows] @ x.T / temperature]
    if ignored is not None:
        logits = [side.masked_fill(ignored, -torch.inf) for side in logits]
    return (cross_entropy(logits[0], rows) + cross_entropy(logits[1], rows)) / 2


def _suspected_among_all(now: list[Tensor], batch: NDArray[np.int64], choice: PlanChoice, planned: Planned) -> Tensor:
    """(k, N) bool: pairs that are suspected in either direction, never a row's own."""
    assert choice.mask_margin is not None
    rows = torch.from_numpy(batch).to(now[0].device)
    positive = (now[0] * now[1]).sum(dim=1)
    found = torch.zeros(len(batch), len(positive), dtype=torch.bool, device=positive.device)
    for side, other in (now, now[::-1]):
        similarities = side[rows] @ other.T
        found |= suspected(similarities, positive[rows], positive, choice.mask_margin, planned.threshold or -1.0)
    found[torch.arange(len(rows)), rows] = False
    return found


def _gap_figures(now: list[NDArray[np.float32]], planned: Planned, training: Training) -> dict[str, Any]:
    found = gcbs_cli.report(
        now[0],
        now[1],
        planned.perm,
        batch_size=training.batch_size,
        temperature=training.temperature,
        trials=REPORT_TRIALS,
    )
    return {
        "reduction": found.gap.reduction,
        "masked_reduction": found.gap.masked.reduction,
        "suspected_pairs": found.false_negatives.suspected_pairs,
        "gap": found.gap.plan,
        "global_loss": found.loss.global_,
    }


def best_epoch(record: Record, after: int | None = None) -> int:
    """The epoch of the best validation MRR, of the first `after` ones."""
    validation = [epoch["validation"] for epoch in record["epochs"]][: None if after is None else after + 1]
    return int(np.argmax(validation))


def make_table(records: list[Record]) -> str:
    """Mean ± standard deviation over seeds and paired differences, at the epoch that the validation queries choose."""
    figure = "test" if "test" in records[0]["epochs"][0] else "validation"
    best = by_seed(records, lambda record: record["epochs"][best_epoch(record)][figure])
    early = by_seed(records, lambda record: record["epochs"][min(2, len(record["epochs"]) - 1)]["validation"])
    validation = by_seed(records, lambda record: record["epochs"][best_epoch(record)]["validation"])
    epoch = by_seed(records, best_epoch)
    seconds = [
        by_seed(records, lambda record: _mean(record, "plan_seconds")),
        by_seed(records, lambda record: _mean(record, "train_seconds")),
    ]
    head = ["plan", "seeds", f"{figure} MRR", "− random", "− rcm", "validation", "after epoch 2", "best epoch"]
    lines = []
    for name, values in best.items():
        lines.append(
            [
                name,
                str(len(values)),
                spread(list(values.values()), 2),
                *differences(best, name),
                spread(list(validation[name].values()), 2),
                spread(list(early[name].values()), 2),
                f"{np.mean(list(epoch[name].values())):.1f}",
                *(f"{np.mean(list(part[name].values())):.1f}" for part in seconds),
                *_reported(records, name),
            ]
        )
    reported = ["gap reduction", "masked", "suspected pairs"]
    return markdown([*head, "planning, s/epoch", "training", *reported], lines)


def _mean(record: Record, key: str) -> float:
    return float(np.mean([epoch[key] for epoch in record["epochs"][1:]]))


def _reported(records: list[Record], name: str) -> list[str]:
    """Gap reduction, masked and suspected pairs at the first and the last epoch, of the runs that measured them."""
    found = [
        (record["epochs"][1]["report"], record["epochs"][-1]["report"])
        for record in records
        if record["name"] == name and "report" in record["epochs"][-1]
    ]
    if not found:
        return ["–"] * 3
    shown = []
    for key, digits in (("reduction", 2), ("masked_reduction", 2), ("suspected_pairs", 0)):
        ends = (np.mean([ends[place][key] for ends in found]) for place in range(2))
        shown.append("–".join(f"{end:z,.{digits}f}" for end in ends))
    return shown


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train, and add a line to --out for each method and seed that it lacks")
    run.add_argument("data", type=Path, help="folder with x.npy and y.npy")
    run.add_argument("--out", type=Path, required=True, help="JSON lines")
    run.add_argument(
        "--methods",
        nargs="+",
        default=PLANNED,
        help="names, or NAME={settings as JSON}",
    )
    run.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    run.add_argument("--train-rows", type=int, default=Training.train_rows)
    run.add_argument("--queries", type=int, default=Training.queries, help="validation queries, and test queries")
    run.add_argument("--epochs", type=int, default=Training.epochs)
    run.add_argument("--learning-rate", type=float, default=Training.learning_rate)
    run.add_argument("--test", action="store_true", help="also rank the test queries; for the last run only")
    run.add_argument("--report-seeds", type=int, nargs="*", default=[0], help="whose first and last plans to measure")
    table = commands.add_parser("table", help="print the results as a Markdown table")
    table.add_argument("records", type=Path, nargs="+")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, or print the table."""
    options = parse_arguments(arguments)
    if options.command == "table":
        print(make_table([record for path in options.records for record in read_records(path)]))
        return
    x, y = load_embeddings(options.data)
    training = Training(options.train_rows, options.queries, options.epochs, learning_rate=options.learning_rate)
    choices = [read_choice(text) for text in options.methods]
    texts = load_texts(options.data)[0] if any(choice.reads_texts for _, choice in choices) else None
    for seed in options.seeds:
        for name, choice in choices:
            if is_done(read_records(options.out), name, seed):
                continue
            report = seed in options.report_seeds
            record = train_once(x, y, choice, training, seed, test=options.test, report=report, texts=texts)
            add_record(options.out, {"name": name, "processor": processor_name(), **record})
            best = record["epochs"][best_epoch(record)]["validation"]
            print(f"{name}, seed {seed}: validation MRR {best:.2f} at epoch {best_epoch(record)}", flush=True)


if __name__ == "__main__":
    main()
