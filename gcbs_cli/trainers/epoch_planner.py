"""Make a plan at the start of each epoch from the current model's embeddings, in the training process."""

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch.distributed

from gcbs_cli.api import plan, report
from gcbs_cli.plan_file.permutation import read_permutation, write_permutation
from gcbs_cli.settings.plan import DEFAULT_TEMPERATURE, PlanSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.sampler import is_distributed, sampler_of

_BESIDE_SETTINGS = ("groups", "texts", "normalize")
"""Arguments of `gcbs_cli.plan` that are not settings."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EpochFigures:
    """Losses and gap of one epoch's plan in nats (GCBS, figure 3), and the share of random's gap that it closes."""

    epoch: int
    global_loss: float
    train_loss: float
    gap: float
    reduction: float | None

    def as_logs(self) -> dict[str, float]:
        """Return the figures under the names that loggers get; a reduction of 0/0 is NaN."""
        reduction = math.nan if self.reduction is None else self.reduction
        return {
            "gcbs/L_global": self.global_loss,
            "gcbs/L_train": self.train_loss,
            "gcbs/gap": self.gap,
            "gcbs/reduction": reduction,
        }


class EpochPlanner:
    """Gives a sampler a new plan each epoch and measures what the plan is worth.

    planned: the sampler, or the object that makes it (`PlannedBatches`, a trainer, a data module).
    embed: returns both sides of all rows, (N, d) each, from the current model; called only on rank 0, without
    gradients. plan_settings: arguments of `gcbs_cli.plan`, best `{"preset": "train"}`. log: called with
    `EpochFigures.as_logs()`, also only on rank 0; `history` holds the same figures on every rank.
    save: a name pattern such as `perm-{epoch}.npy`, so that a run resumed in the middle of an epoch finds its plan.
    Raises BadInput for settings that `gcbs_cli.plan` does not take.
    """

    def __init__(
        self,
        planned: Any,
        embed: Callable[[], tuple[Any, Any]],
        *,
        temperature: float = DEFAULT_TEMPERATURE,
        loss: str = "symmetric",
        trials: int = 5,
        plan_settings: Mapping[str, Any] | None = None,
        log: Callable[[dict[str, float]], object] | None = None,
        save: str | None = None,
    ) -> None:
        self._planned, self._embed = planned, embed
        self._report_settings: dict[str, Any] = {"temperature": temperature, "loss": loss, "trials": trials}
        self._settings = {"temperature": temperature, **(plan_settings or {})}
        chosen = {name: value for name, value in self._settings.items() if name not in _BESIDE_SETTINGS}
        PlanSettings(**chosen).check_effects()  # here, not in the first epoch
        self._log, self._save = log, save
        self.history: list[EpochFigures] = []

    def start_epoch(self, epoch: int) -> EpochFigures:
        """Embed, plan, report and give the plan to the sampler; call it on every rank before the first batch.

        Rank 0 does the work and the others wait for its permutation. Raises BadInput if batches were handed out.
        """
        figures: EpochFigures
        perm, figures = _on_first_rank(lambda: self._plan(epoch))
        sampler = sampler_of(self._planned)
        sampler.set_epoch(epoch)
        sampler.use_plan(perm)
        self.history.append(figures)
        logger.info("epoch %d: %s", epoch, asdict(figures))
        if self._log is not None and _is_first_rank():
            self._log(figures.as_logs())
        return figures

    def resume_epoch(self, epoch: int) -> None:
        """Use the plan that was saved for an epoch, for a run that resumes in the middle of it."""
        if self._save is None:
            raise BadInput(f"epoch {epoch}: its plan was not saved; give EpochPlanner(save='perm-{{epoch}}.npy')")
        sampler = sampler_of(self._planned)
        sampler.set_epoch(epoch)
        sampler.use_plan(read_permutation(self._save.format(epoch=epoch)))

    def _plan(self, epoch: int) -> tuple[Any, EpochFigures]:
        with torch.no_grad():
            x, y = self._embed()
        sampler = sampler_of(self._planned)
        size = sampler.loss_batch_size
        perm = plan(x, y, batch_size=size, **self._settings).perm
        if self._save is not None:
            write_permutation(self._save.format(epoch=epoch), perm, size)
        found = report(x, y, perm, batch_size=size, drop_last=sampler.drop_last, **self._report_settings)
        return perm, EpochFigures(epoch, found.loss.global_, found.loss.plan, found.gap.plan, found.gap.reduction)


def _on_first_rank(work: Callable[[], Any]) -> Any:
    """Return rank 0's result of `work` on all ranks, and raise its error on all, so that none waits forever."""
    if not is_distributed():
        return work()
    outcome: list[Any] = [None, None]
    if _is_first_rank():
        try:
            outcome[0] = work()
        except Exception as error:
            outcome[1] = error
    torch.distributed.broadcast_object_list(outcome, src=0)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def _is_first_rank() -> bool:
    return not is_distributed() or torch.distributed.get_rank() == 0
