"""Every figure of a report in float64, read from the definitions (docs/method.md) and the papers alone.

Nothing here is taken from gcbs_cli or from tests/reference.py: each direction of a loss is a table of similarities with
a positive, the keys that L_global sums over, and the keys that a row sees in its batch.
"""

from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Figures = dict[str, Any]
"""Values by path; None where a figure would be 0 / 0."""
TIE = 1e-6
"""Similarities nearer than this are equal: a report's are float32."""

OF_THE_PLAN_ALONE = {
    *("loss.global", "gap.oracle", "bounds.translation", "bounds.logsumexp", "positive_probability.global"),
    *("false_negatives.rows", "mutual_information_bound", "accuracy.global"),
    *("similarity.positive", "coordinates.global"),
}


def normalised(z: Array, way: str | None) -> Array:
    """Coordinates of raw rows, normalised over the rows given."""
    span = z.max(axis=0) - z.min(axis=0)
    size = np.linalg.norm(z, axis=0) if way == "l2" else span
    return np.asarray((z - z.min(axis=0) * (way == "min-max")) / np.where(size > 0, size, np.inf))


class Direction(NamedTuple):
    """Rows of one direction: what they are compared with, their positive, whom L_global and L_train sum over."""

    s: Array
    positive: Array
    everyone: Array
    seen: Array
    row: Array
    """Which pair each row of the table belongs to."""
    key: Array
    """Which pair each key belongs to."""


@dataclass
class Case:
    """What is asked of a report. `positives`: an id for each row; `labels`: a number for each row."""

    x: Array
    y: Array
    batch_size: int
    temperature: float
    threshold: float
    kind: str = "symmetric"
    queue: int = 0
    queue_mode: str = "xbm"
    top: int | None = None
    margin: float = 0.2
    drop_last: bool = False
    fn_margin: float = 0.95
    groups: Array | None = None
    positives: Array | None = None
    labels: Array | None = None
    label_threshold: float | None = None
    divide_by: str = "positives"
    mse: float | None = None
    coordinates: str | None = None
    u: Array = field(init=False)
    v: Array = field(init=False)

    def __post_init__(self) -> None:
        """Rows of unit length."""
        self.u, self.v = (np.float64(z) / np.linalg.norm(np.float64(z), axis=1)[:, None] for z in (self.x, self.y))
        self.s = self.u @ self.v.T
        self.n = len(self.s)

    # which pairs

    def edges(self) -> Array:
        """(N, N): s_ij > t or s_ji > t, i ≠ j."""
        hard = self.s > self.threshold
        return (hard | hard.T) & ~np.eye(self.n, dtype=bool)

    def suspected(self) -> Array:
        """(N, N): at least t and at least the margin of either positive, in either direction; or of one group."""
        own = np.diag(self.s)
        least = np.maximum(self.threshold, self.fn_margin * np.minimum(own[:, None], own[None]))
        found = (self.s >= least) | (least <= self.s.T)
        if self.groups is not None:
            found |= self.groups[:, None] == self.groups[None]
        if self.kind == "bsc":
            found &= ~self.right()
        return found & ~np.eye(self.n, dtype=bool)

    def right(self) -> Array:
        """(N, N): j is a positive of i, and i one of j; without ids, where the rows of X are equal."""
        ids = np.unique(self.x, axis=0, return_inverse=True)[1].ravel() if self.positives is None else self.positives
        return np.asarray((ids[:, None] == ids[None]) & self.is_positive()[:, None] & self.is_positive()[None])

    def is_positive(self) -> Array:
        """(N,): whether the row is a positive pair."""
        if self.labels is None or (self.mse is not None and self.label_threshold is None):
            return np.ones(self.n, bool)
        return np.asarray(self.labels > (self.label_threshold or 0))

    # an order

    def batch_of(self, perm: Array) -> Array:
        """(N,): the batch of each row, -1 where the trainer drops it."""
        batch = np.empty(self.n, int)
        batch[perm] = np.arange(self.n) // self.batch_size
        if self.drop_last:
            batch[batch == self.n // self.batch_size] = -1
        return batch

    def directions(self, batch: Array) -> list[Direction]:
        """x→y, then y→x where the loss is a mean of both, or the one table of all views."""
        pairs = np.arange(self.n)
        age = batch[:, None] - batch[None]
        age = np.where((batch[:, None] < 0) | (batch[None] < 0), -1, age)
        if self.kind == "simclr":
            views, different = np.concatenate([self.u, self.v]), ~np.eye(2 * self.n, dtype=bool)
            table, seen, row = views @ views.T, np.tile(age == 0, (2, 2)) & different, np.tile(pairs, 2)
            halves = (slice(None, self.n), pairs + self.n), (slice(self.n, None), pairs)
            return [Direction(table[h], positive, different[h], seen[h], pairs, row) for h, positive in halves]
        moco = self.queue > 0 and self.queue_mode == "moco"
        seen = (age >= moco) & (age <= self.queue) | np.eye(self.n, dtype=bool)
        tables = [self.s] if moco or self.kind == "infonce" else [self.s, self.s.T]
        return [Direction(s, pairs, np.ones_like(seen), seen, pairs, pairs) for s in tables]

    def hardest(self, d: Direction, among: Array, count: int | None) -> Array:
        """The positive and the hardest `count` negatives among the keys, for each row; None for all."""
        negatives = np.where(among, d.s, -np.inf)
        negatives[np.arange(len(d.s)), d.positive] = -np.inf
        hardest = np.argsort(-negatives, axis=1, kind="stable")[:, :count]
        kept = np.zeros_like(among)
        np.put_along_axis(kept, hardest, True, axis=1)
        kept &= np.isfinite(negatives)
        kept[np.arange(len(d.s)), d.positive] = True
        return kept

    def row_loss(self, d: Direction, keys: Array, positives: Array | None = None) -> Array:
        """(rows,): the loss of each row over these keys, in nats (triplet: in units of similarity).

        positives: where a row looks for its positives, if not among the keys.
        """
        if self.kind == "triplet":
            negatives = np.where(keys & (d.row[:, None] != d.key[None]), d.s, -np.inf).max(axis=1)
            return np.maximum(0, self.margin + negatives - d.s[np.arange(len(d.s)), d.positive])
        log_sum = np.log(np.where(keys, np.exp(d.s / self.temperature), 0).sum(axis=1))
        if self.kind != "bsc":
            return np.asarray(log_sum - d.s[np.arange(len(d.s)), d.positive] / self.temperature)
        right = self.right() & (keys if positives is None else positives)
        return np.asarray(log_sum - (d.s * right).sum(axis=1) / np.maximum(1, right.sum(axis=1)) / self.temperature)

    def loss(
        self, directions: list[Direction], keys: list[Array], rows: Array, *, all_positives: bool = False
    ) -> float:
        """The mean over rows and directions; `all_positives`: a row counts those that are not among its keys, too."""
        counted = rows & self.is_positive() if self.kind == "bsc" else rows
        divisor = counted.sum() if self.divide_by == "positives" else rows.sum()
        sums = [
            self.row_loss(d, k, d.everyone if all_positives else None)[counted].sum()
            for d, k in zip(directions, keys, strict=True)
        ]
        mean = float(np.mean(sums) / divisor)
        if self.mse is None:
            return mean
        target = np.ones(self.n) if self.labels is None else self.labels
        return self.mse * mean + (1 - self.mse) * float(np.mean((np.diag(self.s) - target)[rows] ** 2))

    def coordinate_loss(self, batch: Array, kept: Array) -> float:
        """The mean over kept rows of the loss of raw rows, coordinates normalised over the rows of each batch."""
        rows, losses = kept & self.is_positive() if self.divide_by == "positives" else kept, []
        for b in range(batch.max() + 1):
            inside, part = batch == b, copy(self)
            part.x, part.y = (normalised(np.float64(z[inside]), self.coordinates) for z in (self.x, self.y))
            part.n, part.s, part.queue = len(part.x), part.x @ part.y.T, 0
            for name in ("positives", "labels"):
                setattr(part, name, None if getattr(self, name) is None else getattr(self, name)[inside])
            if rows[inside].any():
                directions = part.directions(np.zeros(part.n, int))
                mean = part.loss(directions, [d.everyone for d in directions], kept[inside])
                losses.append(mean * rows[inside].sum())
        return sum(losses) / rows.sum()

    # figures

    def of_order(self, perm: Array) -> Figures:
        """What depends on the order, if only by the rows that the trainer keeps; by the path without its last part."""
        batch, tau = self.batch_of(perm), self.temperature
        kept, same = batch >= 0, (batch[:, None] == batch[None]) & (batch >= 0)[:, None]
        rows = kept & self.is_positive() if self.kind == "bsc" else kept
        directions, suspected, edges = self.directions(batch), self.suspected(), self.edges()
        everyone, seen, free, unmasked = [], [], [], []
        for d in directions:
            plain = ~suspected[np.ix_(d.row, d.key)]
            everyone.append(d.everyone)
            seen.append(self.hardest(d, d.seen, self.top))
            free.append(d.everyone & plain)
            unmasked.append(self.hardest(d, d.seen & plain, self.top))
        oracle = [self.hardest(d, d.everyone, self.oracle_count()) for d in directions]
        trained, whole = self.loss(directions, seen, kept), self.loss(directions, everyone, kept)
        off, own = ~np.eye(self.n, dtype=bool), np.diag(self.s)
        found: Figures = {
            "loss": trained,
            "loss.global": whole,
            "gap": whole - trained,
            "gap.masked": self.loss(directions, free, kept) - self.loss(directions, unmasked, kept),
            "gap.oracle": whole - self.loss(directions, oracle, kept, all_positives=True),
            "similarity.positive": own[rows].mean(),
            "similarity.negative": self.s[same & off].mean(),
            "in_batch_edge_share": (edges & same).sum() / edges.sum() if edges.any() else None,
            "false_negatives": (suspected & same).sum() / 2,
            "false_negatives.rows": (suspected & same).any(axis=1).sum(),
            "coordinates": self.coordinate_loss(batch, kept) if self.coordinates else None,
            "coordinates.global": self.coordinate_loss(0 * batch, kept) if self.coordinates else None,
            **self.of_positions(np.argsort(perm), edges),
        }
        parts = []
        for d, some in zip(directions, seen, strict=True):
            among = rows
            s, positive, some, all_keys = d.s[among], d.positive[among], some[among], d.everyone[among]
            own_s, logit = s[np.arange(len(s)), positive], np.exp(s / tau)
            low, high = np.where(some, s, np.inf).min(axis=1), np.where(some, s, -np.inf).max(axis=1)
            largest, count = np.where(all_keys, s, -np.inf).max(axis=1), all_keys.sum(axis=1)
            values = {
                "bounds.translation": (largest - low) / tau + np.log(count / some.sum(axis=1)),
                "bounds.logsumexp": (largest - high) / tau + np.log(count),
                "objective.translation": low,
                "objective.logsumexp": high,
                "positive_probability": np.exp(own_s / tau) / (logit * some).sum(axis=1),
                "positive_probability.global": np.exp(own_s / tau) / (logit * all_keys).sum(axis=1),
                "mutual_information_bound": np.log(some.sum(axis=1)) - trained,
                "learnable_share": (logit * some * (s < own_s[:, None] - TIE)).sum(axis=1) / (logit * some).sum(axis=1),
                "accuracy": own_s >= high - TIE,
                "accuracy.global": own_s >= largest - TIE,
            }
            parts.append({name: value.mean() for name, value in values.items()})
        return found | {
            name: parts[0][name] if "accuracy" in name else np.mean([part[name] for part in parts]) for name in parts[0]
        }

    def of_positions(self, at: Array, edges: Array) -> Figures:
        """Bandwidth and profile of an order, given by each row's position."""
        distance = np.where(edges, at[:, None] - at[None], 0)
        return {"bandwidth": abs(distance).max(), "profile": distance.max(axis=1).sum()}

    def of_data(self) -> Figures:
        """What no order changes."""
        edges, pairs = self.edges(), np.triu_indices(self.n, 1)
        found: Figures = {
            "graph.threshold": self.threshold,
            "false_negatives.margin": self.fn_margin,
            "graph.quantile": np.mean((self.s <= self.threshold)[~np.eye(len(self.s), dtype=bool)]),
            "graph.edges": edges.sum() / 2,
            "graph.isolated": (~edges.any(axis=1)).sum(),
            "alignment": ((self.u - self.v) ** 2).sum(axis=1).mean(),
        }
        for name, z in (("x", self.u), ("y", self.v)):
            squares = ((z[pairs[0]] - z[pairs[1]]) ** 2).sum(axis=1)
            found[f"uniformity.{name}"] = np.log(np.exp(-2 * squares).mean())
        return found | {
            f"{name}.identity": value for name, value in self.of_positions(np.arange(self.n), edges).items()
        }

    def oracle_count(self) -> int:
        """How many negatives a row sees in a full batch."""
        count = self.batch_size - 1 + self.queue * self.batch_size
        count = {"simclr": 2 * self.batch_size - 2}.get(self.kind, count)
        if self.queue and self.queue_mode == "moco":
            count = self.queue * self.batch_size
        return count if self.top is None else min(count, self.top)

    def figures(self, perm: Array, orders: list[Array]) -> Figures:
        """Every figure of a report by its path; `orders`: the random permutations."""
        found, trials = self.of_data(), [self.of_order(order) for order in orders]
        for name, value in self.of_order(perm).items():
            drawn = [trial[name] for trial in trials]
            mean = None if drawn[0] is None else np.mean(drawn)
            found[f"{name}.plan"], found[f"{name}.random"], found[f"{name}.random_mean"] = value, mean, mean
            found[f"{name}.random_std"] = None if mean is None or len(drawn) == 1 else np.std(drawn, ddof=1)
            if name in OF_THE_PLAN_ALONE:
                found[name] = value
        found["false_negatives.suspected_pairs"] = found["false_negatives.plan"]
        random, closable = found["gap.random"], found["gap.random"] - found["gap.oracle"]
        found["gap.reduction"] = _share(random - found["gap.plan"], random)
        found["gap.closed_share"] = _share(random - found["gap.plan"], closable)
        random = found["gap.masked.random"]
        found["gap.masked.reduction"] = _share(random - found["gap.masked.plan"], random)
        return {path: None if path.startswith(self.undefined()) else value for path, value in found.items()}

    def undefined(self) -> tuple[str, ...]:
        """Paths of figures that mean nothing for this loss."""
        several = self.kind == "bsc" and bool((self.right().sum(axis=1) > 1).any())
        one_cross_entropy = self.kind != "triplet" and self.top is None and self.mse is None
        return (
            *(("bounds", "objective") if self.kind in ("bsc", "triplet") else ()),
            *(("accuracy", "gap.closed_share") if several else ()),
            *(("learnable_share",) if several or self.kind == "triplet" else ()),
            *(() if one_cross_entropy and not several and self.divide_by != "all" else ("mutual_information_bound",)),
        )


def _share(part: float, whole: float) -> float | None:
    return None if abs(whole) < 1e-9 else part / whole
