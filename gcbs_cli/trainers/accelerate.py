"""Accelerate: a loader whose planned batches survive `accelerator.prepare`.

Accelerate deals the batches of a batch sampler to ranks itself, or slices each (split_batches=True), and fills short
batches with rows from the start of the epoch (even_batches=True). `planned_loader` gives it only full batches, as many
as make whole steps, so that accelerate never fills or drops anything; the rest is `left_out()`.
"""

from typing import TYPE_CHECKING, Any

from gcbs_cli.trainers.sampler import PlannedBatchSampler, Yields

if TYPE_CHECKING:
    from accelerate import Accelerator
    from torch.utils.data import DataLoader


def planned_loader(
    accelerator: "Accelerator",
    dataset: Any,
    plan: Any,
    batch_size: int | None = None,
    *,
    drop_last: bool | None = None,
    shuffle_batches: bool = False,
    seed: int = 0,
    gather: bool | None = None,
    **loader_settings: Any,
) -> "DataLoader[Any]":
    """A prepared DataLoader over the planned batches; do not prepare it again.

    The settings are those of `PlannedBatchSampler` and of DataLoader. It works with split_batches (if the loss
    gathers), with dispatch_batches, and with even_batches on or off. `loader_sampler(loader)` returns its sampler;
    resume with `start_at`.
    Raises BadInput for a plan that does not fit the dataset or the accelerator's ranks.
    """
    from torch.utils.data import DataLoader

    def yielding(yields: Yields) -> PlannedBatchSampler:
        place = accelerator.process_index, accelerator.num_processes
        given = plan, batch_size, drop_last, shuffle_batches, seed
        return PlannedBatchSampler(*given, *place, gather=gather, yields=yields, dataset=dataset)

    sampler = yielding(Yields.BATCHES)
    if sampler.sharding.gather and not accelerator.split_batches:
        sampler = yielding(Yields.SLICES)
    loader = accelerator.prepare_data_loader(DataLoader(dataset, batch_sampler=sampler, **loader_settings))
    loader.gcbs_sampler = sampler
    return loader


def loader_sampler(loader: "DataLoader[Any]") -> PlannedBatchSampler:
    """Return the sampler of a loader made by `planned_loader`."""
    sampler: PlannedBatchSampler = loader.gcbs_sampler  # type: ignore[attr-defined]
    return sampler


def start_at(loader: "DataLoader[Any]", epoch: int, step: int) -> None:
    """Start the next iteration of such a loader at a step of an epoch; use it instead of `skip_first_batches`."""
    loader.set_epoch(epoch)  # type: ignore[attr-defined]
    loader_sampler(loader).start_at(epoch, step)
