"""Two residual heads on frozen embeddings, which a trial trains, and the ranks that they give to right answers."""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.reports.batch_loss import batch_loss
from gcbs_cli.system.arrays import Bools, Float32s, Floats, Ints

QUERIES_AT_ONCE = 1024


class Heads:
    """x + W x + b for each side, scaled to unit length: the identity at first."""

    def __init__(self, pair: PairedRows, device: str, learning_rate: float) -> None:
        torch.set_num_threads(1)  # more wait for each other: small batches, and other heads on the other processors
        self._device = device
        self._sides = [torch.from_numpy(side).to(device) for side in (pair.x, pair.y)]
        self._changes = nn.ModuleList(nn.Linear(pair.dim, pair.dim) for _ in self._sides).to(device)
        for weight in self._changes.parameters():
            nn.init.zeros_(weight)
        self._optimizer = torch.optim.AdamW(self._changes.parameters(), lr=learning_rate, fused=True)

    def outputs(self, rows: Ints, side: int) -> Tensor:
        """(n, d) unit rows of side 0 or 1."""
        given = self._sides[side][rows]
        return normalize(given + self._changes[side](given), dim=1)

    @torch.no_grad()
    def embed(self, rows: Ints) -> tuple[Float32s, Float32s]:
        """Both sides as they are now."""
        x, y = (self.outputs(rows, side).cpu().numpy() for side in (0, 1))
        return x, y

    def train(self, rows: Ints, batches: Iterable[Ints], temperature: float, negatives: Ints | None = None) -> None:
        """One step a batch on the symmetric loss; batches, negatives: places in `rows`.

        negatives: (n, l) whose y each row brings as one more that all of a batch see.
        """
        for batch in batches:
            keys = batch if negatives is None else np.concatenate([batch, negatives[batch].ravel()])
            loss = batch_loss(self.outputs(rows[batch], 0), self.outputs(rows[keys], 1), temperature)
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()

    @torch.no_grad()
    def ranks(self, queries: Ints, candidates: Ints, right: Bools) -> Floats:
        """(q,) the rank of each query's best right answer among the wrong ones, from 1; equal scores share the mean.

        right: (q, c) which candidates are right; every query has one or more.
        """
        answers, found = self.outputs(candidates, 1), []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            here = slice(start, start + QUERIES_AT_ONCE)
            scores, known = self.outputs(queries[here], 0) @ answers.T, torch.from_numpy(right[here]).to(self._device)
            best = scores.where(known, -torch.inf).amax(1, keepdim=True)
            scores.masked_fill_(known, -torch.inf)
            above = torch.heaviside(scores - best, scores.new_tensor(0.5)).sum(1)  # an equal score counts half
            found.append((1.0 + above).double().cpu().numpy())
        return np.concatenate(found)

    def weights(self) -> dict[str, Tensor]:
        """A copy of them, for `take`."""
        return {name: value.clone() for name, value in self._changes.state_dict().items()}

    def take(self, weights: dict[str, Tensor]) -> None:
        """Go on from these."""
        self._changes.load_state_dict(weights)
