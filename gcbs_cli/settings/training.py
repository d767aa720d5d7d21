"""The settings of planning in the training process, whatever the trainer."""

from typing import Any, Literal, Self

from pydantic import PositiveInt, model_validator

from gcbs_cli.settings.model import option
from gcbs_cli.settings.plan import PlanSettings


class TrainingSettings(PlanSettings, panel="Training"):
    """When to plan in the training process, and how."""

    refresh: PositiveInt | Literal["epoch", "once", "stale"] = option(
        "epoch", expected="epoch, once, stale or a number of steps"
    )
    """When to plan again from the current model: each epoch; once, and keep that plan; stale: when the nearest keys of
    a sample of rows have changed; or each epoch and every so many steps, for the rows left."""
    first: Literal["random", "plan"] | None = None
    """The first epoch: planned from a pass of the model, or in random order, which needs none. [default: random where
    a trainer of sentence-transformers runs several epochs, else plan]"""
    preset: Literal["train"] | None = "train"
    """A set of defaults; None: GCBS's plan."""
    shuffle_batches: bool = True
    """Train on the batches of a plan in random order, a new one each epoch."""
    loss: Literal["infonce", "symmetric"] | None = None
    """The loss that is trained. [default: read from the trainer, else symmetric]"""

    @model_validator(mode="after")
    def _check_batch_size(self) -> Self:
        return self  # batch size and ranks are the trainer's

    @property
    def loss_kind(self) -> str:
        """The loss in a report."""
        return self.loss or "symmetric"

    def plan_settings(self, batch_size: int) -> dict[str, Any]:
        """The arguments of `gcbs_cli.plan`."""
        names = PlanSettings.model_fields.keys() - {"shuffle_batches", "gather"}
        arguments = self.model_dump(include=names, exclude_unset=True)
        return arguments | {"preset": self.preset, "batch_size": batch_size, "temperature": self.temperature}
