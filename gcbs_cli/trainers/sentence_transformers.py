"""sentence-transformers: what its trainer and losses say of themselves, and its embeddings."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.arrays import Ints, joined
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.planner import TrainedBatch
from gcbs_cli.trainers.transformers import PlannedTrainer

RANKING = ("MultipleNegativesRankingLoss", "MultipleNegativesSymmetricRankingLoss")
"""The losses, perhaps Cached, that a plan can predict."""
SOFTMAX = {*RANKING, "GISTEmbedLoss"}
"""The losses, perhaps Cached, whose negatives are the other pairs of the batch."""
NO_DUPLICATES = ("no_duplicates", "no_duplicates_hashed")
"""The trainer's batch samplers that keep equal texts apart, as plans can."""
_BOTH_WAYS = {"query_to_doc", "doc_to_query"}
"""The directions of a symmetric loss."""


class PlannedSentenceTrainer(PlannedTrainer):
    """Plans for a trainer of sentence-transformers: columns, prompts and embeddings are the trainer's own."""

    def check_trainer(self) -> None:
        batch_sampler = self.trainer.args.batch_sampler
        if getattr(batch_sampler, "value", None) not in ("batch_sampler", *NO_DUPLICATES):
            raise BadInput(f"batch_sampler {batch_sampler}: chooses the rows of a batch, as plans do; leave it out")
        if self.shows_embeddings and not hasattr(self.trainer.model, "encode"):
            raise BadInput(f"{type(self.trainer.model).__name__}: embeds no side by itself; give embed")
        super().check_trainer()

    def loss_settings(self, name: str) -> TrainingSettings:
        loss = self.loss_module(name)
        bases = [base for base in type(loss).__mro__ if base.__module__.startswith("sentence_transformers.")]
        kinds = {base.__name__.removeprefix("Cached") for base in bases if base.__name__.endswith("Loss")}
        if kinds and kinds.isdisjoint(SOFTMAX):
            raise BadInput(
                f"{type(loss).__name__}: its negatives are not the other pairs of the batch by a softmax, so a plan "
                f"cannot help it; expected one such as {RANKING[0]}"
            )
        both_ways = "Symmetric" in type(loss).__name__ or set(getattr(loss, "directions", ())) >= _BOTH_WAYS
        known: dict[str, Any] = {
            "loss": "symmetric" if both_ways else "infonce",
            "gather": bool(getattr(loss, "gather_across_devices", False)),
        }
        known |= self.settings.model_dump(exclude_unset=True)
        if "temperature" not in known:
            known["temperature"] = _temperature(loss)
        return self.settings.changed(**known)

    def view(self, dataset: Any) -> tuple[Any, Any]:
        return dataset, self.trainer.data_collator

    def lengths(self, dataset: Any) -> Ints:
        return np.sum([[len(text) for text in texts] for texts in self._texts(dataset)], axis=0)

    def labels(self, dataset: Any, batch_size: int) -> Ints | None:
        """Rows that have a text in common, directly or through others, if the trainer keeps duplicates apart."""
        if self.trainer.args.batch_sampler.value not in NO_DUPLICATES:
            return None
        from gcbs_cli.orders.keeping_apart import check_possible

        labels = joined(np.unique_inverse(self._texts(dataset)).inverse_indices)
        check_possible(labels[None], len(dataset), batch_size, "batch_sampler no_duplicates")
        return labels

    def clean_loss(self, name: str, model: Any, inputs: Any) -> Any:
        loss = self.loss_module(name)
        directions = set(getattr(loss, "directions", ()))
        joint = len(directions) > 1 and getattr(loss, "partition_mode", "") == "joint"
        cosine = getattr(getattr(loss, "similarity_fct", None), "__name__", "") == "cos_sim"
        plain = type(loss).__name__.removeprefix("Cached") in RANKING and getattr(loss, "hardness_mode", None) is None
        if not plain or not cosine or joint or not directions <= _BOTH_WAYS:
            return None
        features, labels = self.trainer.collect_features(dict(inputs))
        return loss(features[:2], labels)

    @property
    def shows_embeddings(self) -> bool:
        return self._embed == self.own_embed

    @contextmanager
    def watched(self, batch: TrainedBatch | None) -> Iterator[None]:
        """All losses embed column by column, cached ones in parts; the last module's output is not yet truncated."""
        if batch is None or not self.shows_embeddings:
            yield
            return
        outputs: list[Tensor] = []
        last = self.trainer.model[-1]
        hook = last.register_forward_hook(lambda _, __, output: outputs.append(output["sentence_embedding"].detach()))
        try:
            yield
        finally:
            hook.remove()
        count = len(batch.rows)
        embeddings = torch.cat(outputs)
        if len(embeddings) >= 2 * count:
            batch.keep(embeddings[:count], embeddings[count : 2 * count])

    def loss_module(self, name: str) -> Any:
        """The loss of a data set, out of the losses around it (Matryoshka, AdaptiveLayer, Cached)."""
        from torch.nn import Module

        loss = self.trainer.loss
        loss = loss[name] if isinstance(loss, dict) else loss
        while isinstance(getattr(loss, "loss", None), Module):
            loss = loss.loss
        return loss

    def _texts(self, dataset: Any) -> list[list[str]]:
        """The texts of both sides, as the trainer takes them: the first two columns that are no labels."""
        labels = {*getattr(self.trainer.data_collator, "valid_label_columns", ()), "dataset_name"}
        columns = [name for name in dataset.column_names if name not in labels][:2]
        return [[str(text) for text in dataset[column]] for column in columns]

    def own_embed(self, batch: Any) -> Any:
        features, _ = self.trainer.collect_features(batch)
        return [self.trainer.model(feature)["sentence_embedding"] for feature in features[:2]]


def _temperature(loss: Any) -> float:
    """The temperature that a loss names, or the scale that divides it. Raises BadInput if neither is a number."""
    with suppress(TypeError, ValueError, ZeroDivisionError, AttributeError):
        if hasattr(loss, "scale"):
            return 1 / float(loss.scale)
        return float(loss.temperature)
    raise BadInput(f"{type(loss).__name__}: found neither scale nor temperature as a number; give temperature")
