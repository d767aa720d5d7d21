"""`plan_batches` and `planned`: planned batches in one line, whatever trains."""

from typing import Any

from gcbs_cli.settings.model import typed_by
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed
from gcbs_cli.trainers.loop import PlannedLoader
from gcbs_cli.trainers.planner import Log


@typed_by(TrainingSettings, "world_size", "drop_last")
def plan_batches(trainer: Any, plan: Any = None, *, embed: Embed | None = None, **settings: Any) -> Any:
    """Let a trainer train on planned batches; call it after the trainer is made and before it trains.

    trainer: of sentence-transformers, transformers or Lightning. plan: a path, a name pattern (`perm-{epoch}.npy`) or a
    permutation with its batch_size, or {name: plan} for a DatasetDict; None plans in the training process.
    embed: takes a batch as the trainer's loader yields it, returns the embeddings of both sides, (n, d) each; read from
    the model with sentence-transformers, needed with the other trainers. Batch size, temperature, loss, gathering,
    seed, precision and columns are read from the trainer as far as it names them. The plans are saved in its
    checkpoints, the figures logged under `gcbs/` where it logs, and the first losses checked.
    Returns the planner, with `history` and `check`. Raises BadInput, before any compute, for what cannot be planned.
    """
    asked = _checked(settings)
    modules = {base.__module__.split(".")[0] for base in type(trainer).__mro__}
    if "sentence_transformers" in modules:
        from gcbs_cli.trainers.sentence_transformers import PlannedSentenceTrainer

        return PlannedSentenceTrainer(trainer, plan, asked, embed)
    if "transformers" in modules:
        from gcbs_cli.trainers.transformers import PlannedTrainer

        return PlannedTrainer(trainer, plan, asked, embed)
    if modules & {"lightning", "pytorch_lightning"}:
        from gcbs_cli.trainers.lightning import PlannedCallback

        return PlannedCallback(trainer, plan, asked, embed)
    raise BadInput(
        f"{type(trainer).__name__}: expected a trainer of sentence-transformers, transformers or Lightning; "
        "in a loop of your own, iterate gcbs_cli.planned(loader, embed=...)"
    )


@typed_by(TrainingSettings, "world_size", "drop_last")
def planned(
    loader: Any,
    plan: Any = None,
    *,
    embed: Embed | None = None,
    model: Any = None,
    log: Log | None = None,
    **settings: Any,
) -> PlannedLoader:
    """The planned batches of a DataLoader, for your own loop; each `for` over them is one epoch.

    loader: gives data set, batch size, collation and workers; its order is not used. plan and embed: as for
    `plan_batches`, one of the two. model: put into evaluation mode while it embeds; batches go to its device for that.
    log: called with the figures of each plan. On several ranks (torch.distributed) each gets its share of the batches,
    and each calls log.
    Raises BadInput for what cannot be planned.
    """
    return PlannedLoader(loader, plan, _checked(settings), embed=embed, model=model, log=log)


def _checked(settings: dict[str, Any]) -> TrainingSettings:
    asked = TrainingSettings(**settings)
    PlanSettings(**asked.plan_settings(asked.batch_size)).check_effects()
    return asked
