"""Two residual heads on frozen embeddings, which a trial trains, and the ranks that they give to right answers."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.batch_loss import batch_loss
from gcbs_cli.system.arrays import Bools, Float32s, Floats, Ints

QUERIES_AT_ONCE = 1024


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread, also in threads that start meanwhile.

    Batches are so small that threads would wait for each other, and other heads train on the other processors.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class Heads:
    """x + W x + b for each side, scaled to unit length: the identity at first. changes: W and b."""

    def __init__(self, pairs: PairedRows, device: str, learning_rate: float) -> None:
        self._device = device
        self._sides = [torch.from_numpy(side).to(device) for side in (pairs.x, pairs.y)]
        self.changes = nn.ModuleList(nn.Linear(pairs.dim, pairs.dim) for _ in self._sides).to(device)
        for weight in self.changes.parameters():
            nn.init.zeros_(weight)
        self._optimizer = torch.optim.AdamW(self.changes.parameters(), lr=learning_rate, fused=True)

    def outputs(self, rows: Ints, side: int) -> Tensor:
        """(n, d) unit rows of side 0 or 1."""
        embeddings = self._sides[side][rows]
        return normalize(embeddings + self.changes[side](embeddings), dim=1)

    @torch.no_grad()
    def embed(self, rows: Ints) -> tuple[Float32s, Float32s]:
        """Both sides as they are now."""
        x, y = (self.outputs(rows, side).cpu().numpy() for side in (0, 1))
        return x, y

    def train(self, queries: Ints, keys: Ints, temperature: float) -> None:
        """One step on the symmetric loss of a batch; keys: its rows, and after them those whose y is a negative too."""
        loss = batch_loss(self.outputs(queries, 0), self.outputs(keys, 1), temperature)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    @torch.no_grad()
    def ranks(self, queries: Ints, candidates: Ints, right: Bools) -> Floats:
        """(q,) the rank of each query's best right answer among the wrong ones, from 1; equal scores share the mean.

        right: (q, c) which candidates are right; every query has one or more.
        """
        answers = self.outputs(candidates, 1)
        ranks = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            part = slice(start, start + QUERIES_AT_ONCE)
            scores = self.outputs(queries[part], 0) @ answers.T
            known = torch.from_numpy(right[part]).to(self._device)
            best = scores.where(known, -torch.inf).amax(1, keepdim=True)
            scores.masked_fill_(known, -torch.inf)
            above = torch.heaviside(scores - best, scores.new_tensor(0.5)).sum(1)  # an equal score counts half
            ranks.append((1.0 + above).double().cpu().numpy())
        return np.concatenate(ranks)
