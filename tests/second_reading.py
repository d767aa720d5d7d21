"""Every figure of a report in float64, read from the definitions (docs/method.md) and the papers alone.

Nothing here is taken from gcbs_cli or from tests/reference.py: each direction of a loss is a table of similarities with a positive,
the keys that L_global sums over, and the keys that a row sees in its batch.
"""

from dataclasses import dataclass, field, replace
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
    *("graph.isolated_batches", "false_negatives.rows", "mutual_information_bound"),
}


def normalised(z: Array, way: str | None) -> Array:
    """Coordinates of raw rows, normalised over the rows given."""
    span = z.max(axis=0) - z.min(axis=0)
    size = np.linalg.norm(z, axis=0) if way == "l2" else span
    return np.asarray((z - z.min(axis=0) * (way == "min-max")) / np.where(size > 0, size, 1))


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
            found &= ~self.same_answer()
        return found & ~np.eye(self.n, dtype=bool)

    def same_answer(self) -> Array:
        """(N, N): j is a right answer for i; without ids, where the rows of X are equal."""
        ids = np.unique(self.x, axis=0, return_inverse=True)[1].ravel() if self.positives is None else self.positives
        return np.asarray(ids[:, None] == ids[None])

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
            z, other = np.concatenate([self.u, self.v]), np.tile(age == 0, (2, 2)) & ~np.eye(2 * self.n, dtype=bool)
            row = np.tile(pairs, 2)
            return [
                Direction(
                    z @ z.T,
                    (row + self.n * (np.arange(2 * self.n) < self.n)),
                    ~np.eye(2 * self.n, dtype=bool),
                    other,
                    row,
                    row,
                )
            ]
        moco = self.queue > 0 and self.queue_mode == "moco"
        seen = (age >= moco) & (age <= self.queue) | np.eye(self.n, dtype=bool)
        tables = [self.s] if moco or self.kind == "infonce" else [self.s, self.s.T]
        return [Direction(s, pairs, np.ones_like(seen), seen, pairs, pairs) for s in tables]

    def hardest(self, d: Direction, among: Array, count: int) -> Array:
        """The positive and the hardest `count` negatives among the keys, for each row."""
        negatives = np.where(among, d.s, -np.inf)
        negatives[np.arange(len(d.s)), d.positive] = -np.inf
        hardest = np.argsort(-negatives, axis=1, kind="stable")[:, :count]
        kept = np.zeros_like(among)
        np.put_along_axis(kept, hardest, True, axis=1)
        kept &= np.isfinite(negatives)
        kept[np.arange(len(d.s)), d.positive] = True
        return kept

    def row_loss(self, d: Direction, keys: Array) -> Array:
        """(rows,): the loss of each row over these keys, in nats (triplet: in units of similarity)."""
        if self.kind == "triplet":
            negatives = np.where(keys & (d.row[:, None] != d.key[None]), d.s, -np.inf).max(axis=1)
            return np.maximum(0, self.margin + negatives - d.s[np.arange(len(d.s)), d.positive])
        log_sum = np.log(np.where(keys, np.exp(d.s / self.temperature), 0).sum(axis=1))
        if self.kind != "bsc":
            return np.asarray(log_sum - d.s[np.arange(len(d.s)), d.positive] / self.temperature)
        right = self.same_answer() & keys & self.is_positive()[None]
        return np.asarray(log_sum - (d.s * right).sum(axis=1) / np.maximum(1, right.sum(axis=1)) / self.temperature)

    def loss(self, directions: list[Direction], keys: list[Array], rows: Array) -> float:
        """The mean over rows and directions."""
        counted = rows & self.is_positive() if self.kind == "bsc" else rows
        divisor = counted.sum() if self.divide_by == "positives" else rows.sum()
        sums = [
            self.row_loss(d, k)[counted[d.row]].sum() / (len(d.row) / self.n)
            for d, k in zip(directions, keys, strict=True)
        ]
        mean = float(np.mean(sums) / divisor)
        if self.mse is None:
            return mean
        target = np.ones(self.n) if self.labels is None else self.labels
        return self.mse * mean + (1 - self.mse) * float(np.mean((np.diag(self.s) - target)[rows] ** 2))

    def coordinate_loss(self, batch: Array) -> float:
        """The mean over rows of the loss of raw rows whose coordinates are normalised over the rows of each batch."""
        total = 0.0
        for b in range(batch.max() + 1):
            inside = batch == b
            x, y = (normalised(np.float64(z[inside]), self.coordinates) for z in (self.x, self.y))
            values = {
                name: value[inside] for name in ("positives", "labels") if (value := getattr(self, name)) is not None
            }
            part = replace(self, x=self.x[inside], y=self.y[inside], batch_size=len(x), queue=0, top=None, **values)
            part.s = x @ y.T
            keys = np.ones(part.s.shape, bool)
            total += inside.sum() * part.loss(
                part.directions(np.zeros(len(x), int)), [keys, keys], np.ones(len(x), bool)
            )
        return total / (batch >= 0).sum()

    # figures

    def of_order(self, perm: Array) -> Figures:
        """What depends on the order, by the path without its last part."""
        batch, at = self.batch_of(perm), np.argsort(perm)
        rows, same = batch >= 0, (batch[:, None] == batch[None]) & (batch >= 0)[:, None]
        directions, suspected, edges = self.directions(batch), self.suspected(), self.edges()
        seen = [d.seen if self.top is None else self.hardest(d, d.seen, self.top) for d in directions]
        free = [~suspected[np.ix_(d.row, d.key)] for d in directions]
        unmasked = [
            d.seen & f if self.top is None else self.hardest(d, d.seen & f, self.top)
            for d, f in zip(directions, free, strict=True)
        ]
        trained = self.loss(directions, seen, rows)
        everyone = self.loss(directions, [d.everyone for d in directions], rows)
        found: Figures = {
            "loss": trained,
            "loss.global": everyone,
            "gap": everyone - trained,
            "gap.masked": self.loss(directions, [d.everyone & f for d, f in zip(directions, free, strict=True)], rows)
            - self.loss(directions, unmasked, rows),
            "gap.oracle": everyone
            - self.loss(directions, [self.hardest(d, d.everyone, self.oracle_count()) for d in directions], rows),
            "accuracy": np.mean(
                ((np.diag(self.s)[:, None] >= self.s - TIE) | ~directions[0].seen[: self.n, : self.n]).all(axis=1)[rows]
            ),
            "similarity.negative": self.s[same & ~np.eye(self.n, dtype=bool)].mean(),
            "in_batch_edge_share": (edges & same).sum() / edges.sum() if edges.any() else None,
            "false_negatives": (suspected & same).sum() / 2,
            "false_negatives.rows": (suspected & same).any(axis=1).sum(),
            "graph.isolated_batches": sum(not edges[batch == b].any() for b in range(batch.max() + 1)),
            "coordinates": self.coordinate_loss(batch) if self.coordinates else None,
        } | self.of_positions(at, edges)
        if self.kind not in ("bsc", "triplet"):
            least, most, above, below, p, keys = [], [], [], [], [], []
            for d, among in zip(directions, seen, strict=True):
                kept = rows[d.row]
                low, high = np.where(among, d.s, np.inf).min(axis=1), np.where(among, d.s, -np.inf).max(axis=1)
                top, count = np.where(d.everyone, d.s, -np.inf).max(axis=1), d.everyone.sum(axis=1)
                above.append(((top - low) / self.temperature + np.log(count / among.sum(axis=1)))[kept].mean())
                below.append(((top - high) / self.temperature + np.log(count))[kept].mean())
                least.append(low[kept].mean())
                most.append(high[kept].mean())
                p.append(np.exp(-self.row_loss(d, among))[kept].mean())
                keys.append(np.log(among.sum(axis=1))[kept].mean())
            found |= {"bounds.translation": np.mean(above), "bounds.logsumexp": np.mean(below)}
            found |= {"objective.translation": np.mean(least), "objective.logsumexp": np.mean(most)}
            found |= {"positive_probability": np.mean(p), "mutual_information_bound": np.mean(keys) - trained}
            found["positive_probability.global"] = np.mean(
                [np.exp(-self.row_loss(d, d.everyone))[rows[d.row]].mean() for d in directions]
            )
        return found

    def of_positions(self, at: Array, edges: Array) -> Figures:
        """Bandwidth and profile of an order, given by each row's position."""
        distance = np.where(edges, at[:, None] - at[None], 0)
        return {"bandwidth": abs(distance).max(), "profile": distance.max(axis=1).sum()}

    def of_data(self) -> Figures:
        """What no order changes."""
        edges, off, pairs = self.edges(), ~np.eye(self.n, dtype=bool), np.triu_indices(self.n, 1)
        found: Figures = {
            "similarity.positive": np.diag(self.s).mean(),
            "similarity.negative.global": self.s[off].mean(),
            "accuracy.global": np.mean((np.diag(self.s)[:, None] >= self.s - TIE).all(axis=1)),
            "graph.threshold": self.threshold,
            "graph.quantile": np.mean(self.s <= self.threshold),
            "graph.edges": edges.sum() / 2,
            "graph.isolated": (~edges.any(axis=1)).sum(),
            "graph.max_degree": edges.sum(axis=1).max(),
            "alignment": ((self.u - self.v) ** 2).sum(axis=1).mean(),
            "coordinates.global": self.coordinate_loss(np.zeros(self.n, int)) if self.coordinates else None,
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
        for name in ("gap", "gap.masked"):
            random, plan = found[f"{name}.random"], found[f"{name}.plan"]
            found[f"{name}.reduction"] = 1 - plan / random if random else None
        closable = found["gap.random"] - found["gap.oracle"]
        found["gap.closed_share"] = (found["gap.random"] - found["gap.plan"]) / closable if closable else None
        found["false_negatives.suspected_pairs"] = found["false_negatives.plan"]
        return found
