"""Embed the rows of a data set with the model of this moment: each rank a share, texts tokenised once."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from itertools import chain
from typing import Any

import numpy as np
import torch
import torch.distributed
from torch import Tensor
from torch.utils.data import DataLoader

from gcbs_cli.system.arrays import Float32s, Ints
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.sampler import is_distributed, rank_and_world

Embed = Callable[[Any], tuple[Tensor, Tensor]]
"""Takes a batch as the trainer's loader yields it, returns the embeddings of both sides, (n, d) each."""
Sides = tuple[Float32s, Float32s]

LEAST_BATCH = 256
"""Rows embedded at once, or four training batches where these are more; halved as long as the device lacks memory."""
CACHE_BYTES = 1 << 31
"""Memory of a rank for collated batches (tokens), which serve the next plan too; the rest is collated again."""
PATIENCE = timedelta(days=1)
"""How long ranks wait for the one that plans: the usual ten minutes would end a run with a large plan."""

_patient: Any = None


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
        self._cache: list[Any] = []

    def rows(self, rows: Ints) -> Sides:
        """Both sides of a few rows, by this rank alone and in their order."""
        (sides,) = self._embed_batches([rows], use_cache=False)
        return sides

    def all_rows(self, rows: Ints) -> Sides | None:
        """Both sides of these rows, which rise, on rank 0; None on the others. Call it on every rank."""
        rank, world_size = rank_and_world()
        order = self._order[np.isin(self._order, rows)]
        shares = [order[start::world_size] for start in range(world_size)]
        batches = self._embed_share(shares[rank], use_cache=len(rows) == len(self._order))
        places = np.argsort(np.concatenate(shares))
        sides = []
        for side in (0, 1):  # one after the other: a gather holds what it gathers twice
            parts = [[batch[side] for batch in batches]] * world_size
            if is_distributed():
                torch.distributed.gather_object(parts[rank], None if rank else parts, group=patient_group())
            if rank == 0:
                sides.append(np.concatenate([*chain.from_iterable(parts)])[places])
        return (sides[0], sides[1]) if sides else None

    def share(self, make: Callable[[], Any]) -> Any:
        """Return rank 0's result on every rank, and raise its error on every rank, so that none waits for ever."""
        if not is_distributed():
            return make()
        outcome: list[Any] = [None, None]
        if rank_and_world()[0] == 0:
            try:
                outcome[0] = make()
            except Exception as error:
                outcome[1] = error
        torch.distributed.broadcast_object_list(outcome, src=0, group=patient_group())
        result, failure = outcome
        if failure is not None:
            raise failure
        return result

    def _embed_share(self, rows: Ints, *, use_cache: bool) -> list[Sides]:
        """Both sides of these rows, batch by batch; batches are halved until the device has memory for them."""
        while True:
            batches = [rows[start : start + self._size] for start in range(0, len(rows), self._size)]
            try:
                return self._embed_batches(batches, use_cache=use_cache)
            except torch.OutOfMemoryError:
                if self._size == 1:
                    raise
                self._size //= 2
                self._cache.clear()
                torch.cuda.empty_cache()

    def _embed_batches(self, batches: list[Ints], *, use_cache: bool) -> list[Sides]:
        """Both sides of the rows of each batch. use_cache: these batches come again with the next plan."""
        cache = self._cache if use_cache else []
        room = CACHE_BYTES - sum(map(_bytes, cache))
        fresh: DataLoader[Any] = DataLoader(
            self._loader.dataset,
            batch_sampler=[batch.tolist() for batch in batches[len(cache) :]],
            collate_fn=self._loader.collate_fn,
            num_workers=self._loader.num_workers if use_cache else 0,
        )
        device = next((weight.device for weight in self.model.parameters()), None)
        sides: list[Sides] = []
        with evaluating(self.model), torch.no_grad(), self._precision():
            for rows, batch in zip(batches, chain(list(cache), fresh), strict=True):
                if use_cache and len(cache) == len(sides):  # the cache holds the first batches, without a gap
                    room -= _bytes(batch)
                    if room >= 0:
                        cache.append(batch)
                embeddings = self._embed(_changed(batch, lambda values: values.to(device)))
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


def patient_group() -> Any:
    """The group of all ranks that has patience, on the CPU, if there are ranks; its first use is on all at once.

    Nothing here keeps it: a group that outlives destroy_process_group may abort the process at exit.
    """
    global _patient
    group = None if _patient is None else _patient()
    if group is None and is_distributed():
        group = torch.distributed.new_group(backend="gloo", timeout=PATIENCE)
        _patient = weakref.ref(group)
    return group


def _changed(batch: Any, change: Callable[[Tensor], Any]) -> Any:
    """A copy of a batch with its tensors changed, whatever it is made of."""
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {name: _changed(values, change) for name, values in batch.items()}
    if isinstance(batch, list | tuple):
        return [_changed(part, change) for part in batch]
    return batch


def _bytes(batch: Any) -> int:
    sizes: list[int] = []
    _changed(batch, lambda values: sizes.append(values.nbytes))
    return sum(sizes)
