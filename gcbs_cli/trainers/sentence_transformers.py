"""sentence-transformers: planned batches as the `batch_sampler` of its training arguments."""

from collections.abc import Mapping
from typing import Any

import torch

try:
    from sentence_transformers.base.sampler import DefaultBatchSampler
except ModuleNotFoundError:  # before version 5.4
    from sentence_transformers.sampler import DefaultBatchSampler  # type: ignore[no-redef]

from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.plan_source import PlanSource
from gcbs_cli.trainers.sampler import PlannedBatchSampler
from gcbs_cli.trainers.transformers import sampler_for_batch_size


class PlannedBatches:
    """Planned batches for `SentenceTransformerTrainingArguments(batch_sampler=...)`.

    plan: as for `PlannedBatchSampler`, or a mapping from the names of a DatasetDict to such plans. The trainer passes
    each dataset without its name, so the plan is found by the number of rows; datasets of equal length need the
    `dataset_name` column that the trainer adds if losses or prompts are given by name.
    per_device_train_batch_size must be k, or k/W if the loss gathers from W ranks (gather_across_devices=True).
    evaluation: read datasets that no plan fits in their own order, as evaluation needs, instead of refusing them.
    """

    def __init__(
        self,
        plan: Any,
        *,
        shuffle_batches: bool = True,
        gather: bool | None = None,
        evaluation: bool = False,
    ) -> None:
        named = isinstance(plan, Mapping)
        self._plans: dict[str | None, Any] = dict(plan) if named else {None: plan}
        self._rows = {name: PlanSource(given).for_epoch(0).rows for name, given in self._plans.items()}
        self._shuffle_batches, self._gather, self._evaluation = shuffle_batches, gather, evaluation
        self.samplers: dict[str | None, PlannedBatchSampler] = {}

    @property
    def sampler(self) -> PlannedBatchSampler:
        """The sampler of the only dataset. Raises BadInput if there are several, or before training begins."""
        if len(self.samplers) != 1:
            raise BadInput(f"{len(self.samplers)} samplers: choose one of .samplers; training creates them")
        return next(iter(self.samplers.values()))

    def __call__(
        self,
        dataset: Any,
        batch_size: int,
        drop_last: bool,
        valid_label_columns: list[str] | None = None,
        generator: torch.Generator | None = None,
        seed: int = 0,
    ) -> Any:
        """Return the sampler of a dataset. Raises BadInput if no plan fits it, or if the batch sizes differ."""
        if generator is not None:  # version 5 passes the training seed only to its generator, and 0 as seed
            seed = generator.initial_seed()
        fitting = [name for name, rows in self._rows.items() if rows == len(dataset)]
        if not fitting and self._evaluation:
            rows = range(len(dataset))
            return DefaultBatchSampler(rows, batch_size, drop_last, valid_label_columns, generator, seed)
        name = self._name(dataset, fitting)
        sampler = sampler_for_batch_size(
            self._plans[name],
            batch_size,
            dataset,
            interleaved=len(self._plans) > 1,
            gather=self._gather,
            drop_last=drop_last or None,
            shuffle_batches=self._shuffle_batches,
            seed=seed,
        )
        self.samplers[name] = sampler
        return sampler

    def _name(self, dataset: Any, fitting: list[str | None]) -> str | None:
        if len(fitting) == 1:
            return fitting[0]
        if not fitting:
            planned = ", ".join(f"{rows:,}" for rows in self._rows.values())
            raise BadInput(
                f"found a dataset of {len(dataset):,} rows, expected one of {planned} as planned; "
                "if it is for evaluation, use PlannedBatches(..., evaluation=True)"
            )
        names = set(dataset[:1].get("dataset_name", []))
        found = [name for name in fitting if name in names]
        if len(found) == 1:
            return found[0]
        raise BadInput(
            f"{len(fitting)} datasets of {len(dataset):,} rows cannot be told apart; give the losses by name "
            "(loss={name: loss}), so that the trainer names its datasets"
        )
