"""transformers' Trainer on planned batches, alone or under torchrun, in each way in which accelerate deals them out."""

import os
import sys
import warnings

import torch
from toy_pairs import BATCH, TEMPERATURE, Pairs, Record, Towers, contrast, gathered, leave, must_refuse, pattern_beside
from transformers import Trainer, TrainingArguments

from gcbs_cli.trainers import EpochPlanner, LossCheck
from gcbs_cli.trainers.transformers import PlannedCallback, PlannedTrainerMixin

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
SECOND_EPOCH = {1: 9, 2: 4, 4: 2}[RANKS]  # steps of the first, without gathering


class Watched(PlannedTrainerMixin, Trainer):
    """Contrasts the towers' embeddings, and notes which rows reach the loss."""

    record: Record

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        x, y = model(inputs["x"], inputs["y"])
        loss = contrast(gathered(x), gathered(y)) if self.gather else contrast(x, y)
        self.record.add(int(self.state.epoch or 0), inputs["row"].tolist(), float(loss.detach()))
        return (loss, (x, y)) if return_outputs else loss


def train(name, plan, folder, *, gather=False, size=BATCH, resume=None, replan=False, accumulate=1, **dealing):
    model = Towers()
    arguments = TrainingArguments(
        output_dir=os.path.join(folder, name),
        num_train_epochs=2,
        per_device_train_batch_size=size,
        accelerator_config=dealing,
        gradient_accumulation_steps=accumulate,
        learning_rate=1e-2,
        logging_steps=1,
        save_strategy="steps" if resume is None and name == "whole" else "no",
        save_steps=SECOND_EPOCH + 1,
        remove_unused_columns=False,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Watched(model=model, args=arguments, train_dataset=Pairs())
    trainer.plan, trainer.gather, trainer.record = plan, gather, Record()

    logs = []
    check = LossCheck(trainer, model.embed, temperature=TEMPERATURE, steps=3)
    planner = EpochPlanner(
        trainer, model.embed, temperature=TEMPERATURE, trials=2, log=logs.append, plan_settings={"per_row": 4}
    )
    trainer.add_callback(PlannedCallback(trainer, check=check, planner=planner if replan else None))
    trainer.train(resume_from_checkpoint=resume)
    if resume is None and RANK == 0:
        compared = min(3, trainer.sampler.sharding.steps // accumulate)
        assert [found.agrees for found in check.comparisons] == [True] * compared
    if replan:
        assert [figures.epoch for figures in planner.history] == [0, 1]
        names = {"gcbs/L_global", "gcbs/L_train", "gcbs/gap", "gcbs/reduction"}
        assert [set(figures) for figures in logs] == ([names, names] if RANK == 0 else [])  # once, not by each rank
        trainer.record.steps["plans"] = [[trainer.sampler.plan.perm.tolist(), 0.0]]
    trainer.record.save(folder, name if resume is None else "resumed", RANK)


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("error", message="step .*the trainer's loss")
    plan, folder = sys.argv[1:]
    train("whole", plan, folder)
    train("whole", plan, folder, resume=os.path.join(folder, "whole", f"checkpoint-{SECOND_EPOCH + 1}"))
    train("replanned", plan, folder, replan=True)
    if RANKS == 1:
        train("pattern", pattern_beside(plan), folder)
        train("accumulated", plan, folder, accumulate=2)
    if RANKS > 1:
        train("gather", plan, folder, gather=True, size=BATCH // RANKS)
        train("uneven", plan, folder, even_batches=False)
        train("split", plan, folder, gather=True, split_batches=True)
        train("dispatch", plan, folder, dispatch_batches=True)
        must_refuse("split each planned batch", train, "wrong", plan, folder, split_batches=True)
    must_refuse("use 8", train, "wrong", plan, folder, size=16)
    leave()
