"""Keep the embeddings that training computes anyway, so that the next plan needs no pass of the model."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from gcbs_cli.system.arrays import Array, Float32s, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import RowEmbedder, evaluating

PROBE = 64
"""Rows embedded anew before a plan, to check what is kept."""
LEAST_FOUND = 0.5
"""Share of these that must be nearer to what is kept of them than of the others, on each side."""
ROUNDING = 0.01
"""How far from 1 float16 may take a norm."""
SAME = 0.999
"""Cosine from which two rows count as the same, and either may be the nearer."""
NEAREST = 16
SAMPLED_EVERY = 100
_MOST_WAITING = 64
"""Batches that stay on the device; a copy each step would make the trainer wait for it."""

Sides = NDArray[np.float16]
"""(2, n, d) unit rows of both sides."""


class EmbeddingStore:
    """Both sides of the rows that this rank trained on, in float16: 4·N·d bytes.

    Attributes:
        age: (N,) the epoch that a row's embeddings are of; −1 where there are none.
    """

    def __init__(self, rows: int) -> None:
        self.age = np.full(rows, -1, np.int32)
        self._sides: Sides | None = None
        self._width: int | None = None
        self._waiting: list[tuple[int, Ints, Tensor]] = []

    def add(self, epoch: int, rows: Ints, x: Any, y: Any) -> None:
        """Keep the embeddings (n, d) of these rows, of any length and type. Raises BadInput for other shapes."""
        shapes = [tuple(np.shape(side)) for side in (x, y)]
        width = shapes[0][-1] if self._width is None and shapes[0] else self._width
        if shapes != [(len(rows), width)] * 2:
            raise BadInput(
                f"saw: found the shapes {shapes[0]} and {shapes[1]}, expected ({len(rows)}, {self._width or 'd'}) for "
                "both sides: this rank's rows of the batch, before they are gathered"
            )
        self._width = width
        sides = [normalize(torch.as_tensor(side).detach().float(), dim=1) for side in (x, y)]
        self._waiting.append((epoch, rows, torch.stack(sides).half()))
        if len(self._waiting) >= _MOST_WAITING:
            self._copy()

    def of_rows(self, rows: Ints) -> tuple[Ints, Sides]:
        """Those of the rows that are kept, and both sides of them."""
        self._copy()
        kept = rows[self.age[rows] >= 0]
        if self._sides is None:
            return kept, np.empty((2, 0, 0), np.float16)
        return kept, self._sides[:, kept]

    def check(self, embedder: RowEmbedder, seed: int) -> bool:
        """Whether a probe of the kept rows, embedded anew, is nearer to what is kept of them than of other rows.

        Dropout and an epoch of training move a row less than that; a batch whose rows were taken for others does not
        pass, whatever the cosines of this model are.
        """
        self._copy()
        kept = np.flatnonzero(self.age >= 0)
        if self._sides is None or not len(kept):
            return True
        probe = np.random.default_rng(seed).choice(kept, min(PROBE, len(kept)), replace=False)
        with evaluating(embedder.model):
            (sides,) = embedder.embed_batches([probe])
        if sides[0].shape[1] != self._width:
            return False
        return all(
            _found(side, kept_side) >= LEAST_FOUND for side, kept_side in zip(sides, self._sides[:, probe], strict=True)
        )

    def clear(self) -> None:
        """Forget all rows."""
        self._waiting.clear()
        self.age[:] = -1

    def _copy(self) -> None:
        """Copy what waits on the device."""
        for epoch, rows, sides in self._waiting:
            if self._sides is None:
                self._sides = np.zeros((2, len(self.age), sides.shape[2]), np.float16)
            values = sides.cpu().numpy()
            is_unit = np.abs(np.linalg.norm(values.astype(np.float32), axis=2) - 1.0) < ROUNDING
            self._sides[:, rows] = values
            self.age[rows] = np.where(is_unit.all(axis=0), epoch, -1)  # NaN and rows of no length are embedded anew
        self._waiting.clear()


def nearest_keys(x: Array, y: Array) -> Ints:
    """(n, 16) the keys of y (N, d) nearest to every hundredth row of x, in no order."""
    queries = x[::SAMPLED_EVERY].astype(np.float32)
    keys = y.astype(np.float32)
    count = min(NEAREST, len(keys))
    blocks = np.array_split(queries, -(-len(queries) // PROBE))
    return np.concatenate([np.argpartition(-block @ keys.T, count - 1, axis=1)[:, :count] for block in blocks])


def _found(fresh: Float32s, kept: NDArray[np.float16]) -> float:
    """Share of the rows (n, d) that are nearer to what is kept of them than of any other row."""
    unit = fresh / np.maximum(np.linalg.norm(fresh, axis=1, keepdims=True), np.finfo(np.float32).tiny)
    cosines = unit @ kept.astype(np.float32).T
    others = np.where(unit @ unit.T < SAME, cosines, -np.inf)
    return float(np.mean(np.diag(cosines) > others.max(axis=1)))
