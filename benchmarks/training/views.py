"""Self-supervised views in small: SimCLR on scikit-learn's digits, random against planned batches.

Two augmented views of each image are a positive pair. Before each epoch the batches are planned from the projections of
two fresh views; training draws new ones. The loss is NT-Xent over the 2k views of a batch. Then images of the test
split are classified by their nearest neighbours in the network's features: among all training images, and, since
that is nearly solved before training, among few labelled ones. Nothing is chosen on the test images: the last epoch
counts.

python benchmarks/training/views.py run --out views.jsonl
python benchmarks/training/views.py table views.jsonl
"""

import argparse
import math
from dataclasses import asdict, dataclass
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from contrastive import choose_device, planned_batches, processor_name, working_seconds
from plan_choices import PlanChoice, plan_epoch, read_choice
from run_records import Record, add_record, by_seed, differences, is_done, markdown, read_records, spread
from torch import Tensor, nn
from torch.nn.functional import affine_grid, cross_entropy, grid_sample, normalize

IMAGE_SIDE = 8
BRIGHTEST = 16.0
CLASSES = 10


@dataclass(frozen=True)
class Training:
    """How the network is trained and judged."""

    train_images: int = 1_280
    epochs: int = 40
    batch_size: int = 64
    temperature: float = 0.2
    learning_rate: float = 1e-3
    neighbours: int = 5
    few_labels: int = 10
    few_draws: int = 20


@dataclass(frozen=True)
class Augmentation:
    """How far a view may be from its image: degrees, share of the size, pixels, and deviation of the noise."""

    rotation: float = 20.0
    scale: float = 0.2
    shift: float = 1.0
    noise: float = 0.1


class Network(nn.Module):
    """Two convolutions to 64 features, and a projection to 32 for the loss (SimCLR)."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * (IMAGE_SIDE // 2) ** 2, 64),
        )
        self.projection = nn.Sequential(nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, images: Tensor) -> Tensor:
        """(n, 1, 8, 8) images to unit projections (n, 32)."""
        return normalize(self.projection(self.features(images)), dim=1)


def load_images() -> tuple[Tensor, Tensor]:
    """(n, 1, 8, 8) images from 0 to 1, and their digits (n,)."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None] / BRIGHTEST
    return images, torch.from_numpy(digits.target).long()


def draw_views(images: Tensor, generator: torch.Generator, by: Augmentation | None = None) -> Tensor:
    """One view of each image: turned, scaled, shifted, with noise."""
    by = by or Augmentation()
    count, side = len(images), images.shape[-1]
    draws = (2.0 * torch.rand((count, 4), generator=generator) - 1.0).to(images.device)
    angle, scale = draws[:, 0] * math.radians(by.rotation), 1.0 + draws[:, 1] * by.scale
    shift = draws[:, 2:] * by.shift * 2.0 / side
    rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], dim=1).view(count, 2, 2)
    transforms = torch.cat([rotation * scale[:, None, None], shift[:, :, None]], dim=2)
    views = grid_sample(images, affine_grid(transforms, list(images.shape), align_corners=False), align_corners=False)
    return views + by.noise * torch.randn(images.shape, generator=generator).to(images.device)


def views_loss(x: Tensor, y: Tensor, temperature: float) -> Tensor:
    """NT-Xent (SimCLR): each of the 2k views finds its other view among the other 2k − 1. Mean in nats."""
    views = torch.cat([x, y])
    logits = views @ views.T / temperature
    logits.fill_diagonal_(-torch.inf)
    other = torch.arange(len(views), device=x.device).roll(len(x))
    return cross_entropy(logits, other)


def neighbour_accuracy(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, neighbours: int) -> float:
    """Share of test images whose nearest training images vote for the right digit, weighed by cosine; percent."""
    scores = normalize(test, dim=1) @ normalize(train, dim=1).T
    nearest = scores.topk(neighbours, dim=1)
    votes = torch.zeros((len(test), CLASSES), device=test.device)
    votes.scatter_add_(1, labels[nearest.indices], nearest.values)
    return 100.0 * float((votes.argmax(dim=1) == truth).float().mean())


def few_label_accuracy(
    train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, each: int, draws: int, generator: torch.Generator
) -> float:
    """The same with the nearest of `each` labelled training images a digit; mean over draws of those."""
    found = []
    for _ in range(draws):
        order = torch.randperm(len(labels), generator=generator).to(labels.device)
        chosen = torch.cat([order[labels[order] == digit][:each] for digit in range(CLASSES)])
        found.append(neighbour_accuracy(train[chosen], labels[chosen], test, truth, 1))
    return float(np.mean(found))


def train_once(choice: PlanChoice, training: Training, seed: int) -> Record:
    """One run: accuracies before training and after each epoch, and seconds by part."""
    torch.manual_seed(seed)
    device = choose_device()
    images, labels = (part.to(device) for part in load_images())
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(images))).to(device)
    train, test = order[: training.train_images], order[training.train_images :]
    network = Network().to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=training.learning_rate, fused=True)
    draws = torch.Generator().manual_seed(seed)

    def accuracies() -> tuple[float, float]:
        with torch.no_grad():
            features = network.features(images)
        given = features[train], labels[train], features[test], labels[test]
        few = torch.Generator().manual_seed(seed)
        return (
            neighbour_accuracy(*given, training.neighbours),
            few_label_accuracy(*given, training.few_labels, training.few_draws, few),
        )

    found, plan_seconds, train_seconds, same = [accuracies()], 0.0, 0.0, []
    for epoch in range(training.epochs):
        with torch.no_grad():
            now = [network(draw_views(images[train], draws)).cpu().numpy() for _ in range(2)]
        planned = plan_epoch(
            choice,
            *now,
            batch_size=training.batch_size,
            temperature=training.temperature,
            seed=seed * training.epochs + epoch,
        )
        same.append(_same_label_share(labels[train].cpu().numpy()[planned.perm], training.batch_size))
        began = working_seconds()
        for batch in planned_batches(planned.perm, training.batch_size, np.random.default_rng([seed, epoch])):
            chosen = images[train[torch.from_numpy(batch).to(device)]]
            x, y = (network(draw_views(chosen, draws)) for _ in range(2))
            loss = views_loss(x, y, training.temperature)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        train_seconds += working_seconds() - began
        plan_seconds += planned.seconds
        found.append(accuracies())
    return {
        "seed": seed,
        "choice": asdict(choice),
        "training": asdict(training),
        "accuracy": [both[0] for both in found],
        "few_labels": [both[1] for both in found],
        "same_label": float(np.mean(same)),
        "plan_seconds": plan_seconds / training.epochs,
        "train_seconds": train_seconds / training.epochs,
    }


def _same_label_share(labels: np.ndarray[tuple[int], np.dtype[np.int64]], batch_size: int) -> float:
    """Share of in-batch pairs that show the same digit: false negatives, for this data tells them."""
    full = labels[: len(labels) // batch_size * batch_size].reshape(-1, batch_size)
    same = (full[:, :, None] == full[:, None, :]).sum() - full.size
    return float(same / (full.size * (batch_size - 1)))


def make_table(records: list[Record]) -> str:
    """Accuracies at the end, paired differences, false negatives in the batches, seconds."""
    columns = [
        by_seed(records, lambda record: record["accuracy"][-1]),
        by_seed(records, lambda record: record["few_labels"][-1]),
    ]
    others = [by_seed(records, itemgetter(key)) for key in ("same_label", "plan_seconds", "train_seconds")]
    lines = []
    for name in columns[0]:
        line = [name, str(len(columns[0][name]))]
        for values in columns:
            line += [spread(list(values[name].values()), 2)]
            line += differences(values, name)
        same, *seconds = (float(np.mean(list(values[name].values()))) for values in others)
        lines.append([*line, f"{100.0 * same:.1f} %", *(f"{part:.2f}" for part in seconds)])
    head = [
        "plan",
        "seeds",
        "all labels",
        "− random",
        "− rcm",
        "few labels",
        "− random",
        "− rcm",
        "in-batch pairs of one digit",
    ]
    return markdown([*head, "planning, s/epoch", "training"], lines)


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="train, and add a line to --out for each method and seed that it lacks")
    run.add_argument("--out", type=Path, required=True, help="JSON lines")
    run.add_argument("--methods", nargs="+", default=["random", "rcm", "metis+refine", "metis+refine+apart"])
    run.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    run.add_argument("--epochs", type=int, default=Training.epochs)
    run.add_argument("--temperature", type=float, default=Training.temperature)
    table = commands.add_parser("table", help="print the results as a Markdown table")
    table.add_argument("records", type=Path, nargs="+")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, or print the table."""
    options = parse_arguments(arguments)
    if options.command == "table":
        print(make_table([record for path in options.records for record in read_records(path)]))
        return
    training = Training(epochs=options.epochs, temperature=options.temperature)
    for seed in options.seeds:
        for name, choice in map(read_choice, options.methods):
            if is_done(read_records(options.out), name, seed):
                continue
            record = train_once(choice, training, seed)
            add_record(options.out, {"name": name, "processor": processor_name(), **record})
            print(
                f"{name}, seed {seed}: kNN accuracy {record['accuracy'][-1]:.2f} %, "
                f"with few labels {record['few_labels'][-1]:.2f} %",
                flush=True,
            )


if __name__ == "__main__":
    main()
