"""Embed the rows of a data set with the model of this moment, each rank a share."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import Tensor
from torch.utils.data import DataLoader

from gcbs_cli.system.arrays import Float32s, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.ranks import is_distributed, patient_group, rank_and_world

Embed = Callable[[Any], tuple[Tensor, Tensor]]
"""Takes a batch as the trainer's loader yields it, returns the embeddings of both sides, (n, d) each."""
Sides = tuple[Float32s, Float32s]

LEAST_BATCH = 256
"""Rows embedded at once, or four training batches where these are more; halved as long as the device lacks memory."""


class RowEmbedder:
    """Embeds the rows of a data set; every rank embeds every W-th row, and rank 0 gets them all.

    Args:
        loader: Its data set, collation and workers are used.
        embed: Takes a batch, returns the embeddings of both sides.
        model: Put into evaluation mode meanwhile; batches go to its device.
        lengths: (N,) of the rows' texts, so that a batch holds rows of about the same length.
        precision: Makes the context to embed in, such as autocast.
    """

    def __init__(
        self,
        loader: "DataLoader[Any]",
        embed: Embed,
        *,
        model: torch.nn.Module | None,
        lengths: Ints | None,
        precision: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._loader = loader
        self._embed = embed
        self._precision = precision
        self.model = torch.nn.Module() if model is None else model
        count = len(loader.dataset)  # type: ignore[arg-type]
        # The longest texts come first, so that a device that lacks memory for them says so at once.
        self._order = np.arange(count) if lengths is None else np.argsort(-lengths, kind="stable")
        self._size = max(LEAST_BATCH, 4 * (loader.batch_size or 1))

    def rows(self, rows: Ints) -> Sides:
        """Both sides of a few rows, by this rank alone and in their order."""
        (sides,) = self._embed_batches([rows])
        return sides

    def all_rows(self, rows: Ints) -> Sides | None:
        """Both sides of these rows, which rise, on rank 0; None on the others. Call it on every rank."""
        rank, world_size = rank_and_world()
        order = self._order[np.isin(self._order, rows)]
        shares = [order[start::world_size] for start in range(world_size)]
        batches = self._embed_share(shares[rank])
        places = np.argsort(np.concatenate(shares))
        sides = []
        for side in (0, 1):  # one after the other: a gather holds what it gathers twice
            parts = [[batch[side] for batch in batches]] * world_size
            if is_distributed():
                torch.distributed.gather_object(parts[rank], None if rank else parts, group=patient_group())
            if rank == 0:
                sides.append(np.concatenate([*chain.from_iterable(parts)])[places])
        return (sides[0], sides[1]) if sides else None

    def _embed_share(self, rows: Ints) -> list[Sides]:
        """Both sides of these rows, batch by batch; batches are halved until the device has memory for them."""
        while True:
            batches = [rows[start : start + self._size] for start in range(0, len(rows), self._size)]
            try:
                return self._embed_batches(batches)
            except torch.OutOfMemoryError:
                if self._size == 1:
                    raise
                self._size //= 2
                torch.cuda.empty_cache()

    def _embed_batches(self, batches: list[Ints]) -> list[Sides]:
        """Both sides of the rows of each batch."""
        loader = loader_like(self._loader, self._loader.dataset, [batch.tolist() for batch in batches])
        device = next((weight.device for weight in self.model.parameters()), None)
        sides: list[Sides] = []
        with evaluating(self.model), torch.no_grad(), self._precision():
            for rows, batch in zip(batches, loader, strict=True):
                embeddings = self._embed(_moved(batch, device))
                x, y = (torch.as_tensor(side).detach().float().cpu().numpy() for side in embeddings)
                if x.shape != y.shape or x.ndim != 2 or len(x) != len(rows):
                    raise BadInput(
                        f"embed: returned shapes {x.shape} and {y.shape}, expected ({len(rows)}, d) for both"
                    )
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
