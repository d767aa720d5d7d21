"""transformers' Trainer with `plan_batches`, alone or under torchrun, whatever accelerate is told; resumes."""

import os
import sys

from toy_pairs import BATCH, TEMPERATURE, Pairs, Record, Towers, begin, contrast, leave, pattern_beside
from transformers import Trainer, TrainingArguments

import gcbs_cli as gcbs

RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
SECOND_EPOCH = {1: 9, 2: 4, 4: 2}[RANKS]  # steps of the first, without gathering


class Watched(Trainer):
    """Contrasts the towers' embeddings, and notes which rows reach the loss."""

    record: Record
    gather = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        x, y = model(inputs["x"], inputs["y"])
        loss = contrast(x, y, self.gather)
        if model.training:
            self.record.add(int(self.state.epoch or 0), inputs["row"].tolist(), float(loss.detach()))
        return (loss, (x, y)) if return_outputs else loss


def train(
    name, folder, plan=None, *, gather=False, size=BATCH, resume=None, accumulate=1, given=None, workers=0, **dealing
):
    model = Towers()
    arguments = TrainingArguments(
        output_dir=os.path.join(folder, name),
        num_train_epochs=2,
        per_device_train_batch_size=size,
        accelerator_config=dealing,
        gradient_accumulation_steps=accumulate,
        learning_rate=1e-2,
        logging_steps=3,
        save_strategy="steps" if resume is None and name in ("whole", "replanned") else "no",
        save_steps=SECOND_EPOCH + 1,
        eval_strategy="epoch" if dealing.get("even_batches", True) else "no",  # it would hang evaluation
        remove_unused_columns=False,
        label_names=["row"],
        dataloader_num_workers=workers,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Watched(model=model, args=arguments, train_dataset=Pairs(), eval_dataset=Pairs())
    trainer.gather, trainer.record = gather, Record()
    embed = None if plan is not None else lambda batch: model(batch["x"], batch["y"])
    settings = {"embed": embed, "temperature": TEMPERATURE, "gather": gather, **(given or {})}
    planned = gcbs.plan_batches(trainer, plan, **settings)
    trainer.train(resume_from_checkpoint=resume)
    assert [found.agrees for found in planned.check.comparisons] == ([] if plan is not None or resume else [True] * 2)
    if plan is None and resume is None:
        trainer.record.note_plan(planned.planned[""].sampler.plan.perm, planned.history)
    trainer.record.save(folder, name if resume is None else f"{name}-resumed", RANK)


if __name__ == "__main__":
    begin()
    plan, folder = sys.argv[1:]
    for name, of_run in (("whole", plan), ("replanned", None)):
        train(name, folder, of_run)
        train(name, folder, of_run, resume=os.path.join(folder, name, f"checkpoint-{SECOND_EPOCH + 1}"))
    if RANKS == 1:
        train("pattern", folder, pattern_beside(plan), workers=1)
        train("accumulated", folder, plan, accumulate=2)
    if RANKS > 1:
        train("gather", folder, plan, gather=True, size=BATCH // RANKS)
        train("gathered", folder, gather=True, size=BATCH // RANKS, workers=1)
        train("uneven", folder, plan, even_batches=False)
        train("split", folder, plan, gather=True, split_batches=True)
        train("split-whole", folder, plan, size=RANKS * BATCH, split_batches=True)
        train("dispatch", folder, plan, dispatch_batches=True)
    leave()
