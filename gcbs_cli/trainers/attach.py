"""`plan_batches` and `planned`: planned batches in one line, whatever trains."""

from typing import Any

from gcbs_cli.settings.model import documents
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.settings.training import TrainingSettings
from gcbs_cli.system.errors import BadInput
from gcbs_cli.trainers.embedding import Embed
from gcbs_cli.trainers.loop import PlannedLoader
from gcbs_cli.trainers.planner import Log


@documents(TrainingSettings, "world_size", "drop_last")
def plan_batches(trainer: Any, plan: Any = None, *, embed: Embed | None = None, **settings: Any) -> Any:
    """Let a trainer train on planned batches; call it after the trainer is made and before it trains.

    Batch size, temperature, loss, gathering, seed, precision and columns are read from the trainer as far as it names
    them. The plans are saved in its checkpoints, the figures logged under `gcbs/` where it logs, and the first losses
    checked.

    Args:
        trainer: A trainer of sentence-transformers, transformers or Lightning.
        plan: The path of a plan, a name pattern (`perm-{epoch}.npy`), a permutation with its batch_size, or
            {name: plan} for a DatasetDict. None plans in the training process.
        embed: Takes a batch as the trainer's loader yields it and returns the embeddings of both sides, (n, d) each.
            Other trainers than those of sentence-transformers need it, unless they have a plan.
        **settings: When and how to plan; they are listed below.

    Returns:
        What feeds the trainer. `check.comparisons` holds the losses compared, and `history` the figures logged; with
        Lightning these are `planned.check` and `planned.planner.history`.

    Raises:
        BadInput: Before any compute, if the data cannot be planned, or the trainer would split the batches.
    """
    training_settings = _checked(settings)
    modules = {base.__module__.split(".")[0] for base in type(trainer).__mro__}
    if "sentence_transformers" in modules:
        from gcbs_cli.trainers.sentence_transformers import PlannedSentenceTrainer

        return PlannedSentenceTrainer(trainer, plan, training_settings, embed)
    if "transformers" in modules:
        from gcbs_cli.trainers.transformers import PlannedTrainer

        return PlannedTrainer(trainer, plan, training_settings, embed)
    if modules & {"lightning", "pytorch_lightning"}:
        from gcbs_cli.trainers.lightning import PlannedCallback

        return PlannedCallback(trainer, plan, training_settings, embed)
    raise BadInput(
        f"{type(trainer).__name__}: expected a trainer of sentence-transformers (SetFit has one as its st_trainer), "
        "transformers or Lightning; "
        "in a loop of your own, iterate gcbs_cli.planned(loader, embed=...)"
    )


@documents(TrainingSettings, "world_size", "drop_last")
def planned(
    loader: Any,
    plan: Any = None,
    *,
    embed: Embed | None = None,
    model: Any = None,
    log: Log | None = None,
    **settings: Any,
) -> PlannedLoader:
    """Make the planned batches of a DataLoader, for your own loop; each `for` over them is one epoch.

    On several ranks (torch.distributed) each gets its share of the batches, and each calls log.

    Args:
        loader: Its data set, batch size, collation and workers are used, its order is not.
        plan: As in `plan_batches`; give a plan or embed.
        embed: As in `plan_batches`.
        model: Put into evaluation mode while it embeds; batches go to its device for that.
        log: Called with the figures of each plan.
        **settings: When and how to plan; they are listed below.

    Returns:
        The batches. `check_loss` compares the first losses with the plan's, `state_dict` and `load_state_dict` resume.

    Raises:
        BadInput: If the data cannot be planned.
    """
    return PlannedLoader(loader, plan, _checked(settings), embed=embed, model=model, log=log)


def _checked(settings: dict[str, Any]) -> TrainingSettings:
    training_settings = TrainingSettings(**settings)
    PlanSettings(**training_settings.plan_settings(training_settings.batch_size)).check_effects()
    return training_settings
