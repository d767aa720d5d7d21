"""Embed the rows of a data set with the model of this moment, each rank a share."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.utils.data import DataLoader

from gcbs_cli.system.arrays import Float32s, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.ranks import rank_and_world

Embed = Callable[[Any], tuple[Tensor, Tensor]]
"""Takes a batch as the trainer's loader yields it, returns the embeddings of both sides, (n, d) each."""
Sides = tuple[Float32s, Float32s]

_ROUNDING = 0.01
"""Share of its length by which an embedding may differ in another batch, in 16 bits."""
LEAST_BATCH = 256
"""Rows embedded at once, or four training batches where these are more; halved as long as the device lacks memory."""


class RowEmbedder:
    """Embeds the rows of a data set, each rank every W-th row.

    Args:
        loader: Its data set, collation and workers are used.
        embed: Takes a batch, returns the embeddings of both sides.
        model: Put into evaluation mode meanwhile; batches go to its device.
        lengths: Returns (N,) those of the rows' texts, so that a batch holds rows of about the same length.
        precision: Makes the context to embed in, such as autocast.
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        embed: Embed,
        *,
        model: torch.nn.Module | None,
        lengths: Callable[[], Ints | None],
        precision: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._loader = loader
        self._embed = embed
        self._precision = precision
        self.model = torch.nn.Module() if model is None else model
        self._lengths = lengths
        self._size = max(LEAST_BATCH, 4 * (loader.batch_size or 1))

    @cached_property
    def _order(self) -> Ints:
        """(N,) the longest texts first, so that a device that lacks memory for them says so at once."""
        lengths = self._lengths()
        if lengths is None:
            return np.arange(len(self._loader.dataset))  # type: ignore[arg-type]
        return np.argsort(-lengths, kind="stable")

    def check_order(self, rows: Ints) -> None:
        """Raises BadInput where the embeddings of a few rows do not come in their order."""
        with evaluating(self.model):
            forward, backward = self.embed_batches([rows, rows[::-1]])
        for side, other in zip(forward, backward, strict=True):
            distances = np.linalg.norm(side[:, None] - other[::-1], axis=2)
            if not np.isfinite(distances).all():
                continue  # planning refuses such rows, and names them
            # Dropout or augmentation moves all of them, but makes no other order fit far better.
            best = distances[linear_sum_assignment(distances)].sum()
            if distances.trace() > 2 * best + _ROUNDING * np.linalg.norm(side):
                raise BadInput(
                    "collate_fn, embed: the embeddings come in another order than the rows of the batch, as where a "
                    "batch is sorted by length; keep the order of the rows"
                )

    def embed_share(self, rows: Ints) -> tuple[Ints, list[Float32s]]:
        """This rank's share of the rows, and both sides of them. Call it on every rank."""
        rank, world_size = rank_and_world()
        own = self._order[np.isin(self._order, rows)][rank::world_size]
        with evaluating(self.model):
            batches = self._embed_in_batches(own)
        empty = np.empty((0, 0), np.float32)
        return own, [np.concatenate([batch[side] for batch in batches]) if batches else empty for side in (0, 1)]

    def _embed_in_batches(self, rows: Ints) -> list[Sides]:
        """Both sides of these rows, batch by batch; batches are halved until the device has memory for them."""
        while True:
            batches = [rows[start : start + self._size] for start in range(0, len(rows), self._size)]
            try:
                return self.embed_batches(batches)
            except torch.OutOfMemoryError:
                if self._size == 1:
                    raise
                self._size //= 2
                torch.cuda.empty_cache()

    def embed_batches(self, batches: list[Ints], draws: int = 1) -> list[Sides]:
        """Both sides of the rows of each batch, by this rank alone, embedded so often in the model's present mode."""
        loader = loader_like(self._loader, self._loader.dataset, [batch.tolist() for batch in batches])
        device = next((weight.device for weight in self.model.parameters()), None)
        sides: list[Sides] = []
        with torch.no_grad(), self._precision():
            for rows, batch in zip(batches, loader, strict=True):
                for _ in range(draws):
                    embeddings: Any = self._embed(_moved(batch, device))
                    if not isinstance(embeddings, list | tuple):
                        embeddings = [embeddings]
                    shapes = [tuple(np.shape(side)) for side in embeddings]
                    if shapes != [(len(rows), *shapes[0][-1:])] * 2:
                        found = " and ".join(map(str, shapes))
                        raise BadInput(f"embed: returned shapes {found}, expected ({len(rows)}, d) for both sides")
                    x, y = (torch.as_tensor(side).detach().float().cpu().numpy() for side in embeddings)
                    sides.append((x, y))
        return sides


@contextmanager
def evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode for a moment, then give its modules their modes back."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def loader_like(loader: "DataLoader[Any]", dataset: Any, sampler: Any) -> "DataLoader[Any]":
    """A loader like another one, with the batches of a sampler."""
    batching = {"dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "drop_last"}
    names = signature(DataLoader).parameters.keys() - batching
    return DataLoader(dataset, batch_sampler=sampler, **{name: getattr(loader, name) for name in names})


def _moved(batch: Any, device: torch.device | None) -> Any:
    """A copy of a batch with its tensors on a device, whatever it is made of."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: _moved(values, device) for name, values in batch.items()}
    if isinstance(batch, list | tuple):
        return [_moved(part, device) for part in batch]
    return batch
