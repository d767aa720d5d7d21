"""Run a block of the README as it stands: readme.py FRAMEWORK FOLDER, which holds block.py and perm.npy.

Gives the block the `dataset` and `model` that it leaves to the user, and notes the rows of each loss.
"""

import os
import sys
from pathlib import Path

import torch
from toy_pairs import Pairs, Record, Towers, begin, contrast

ROWS = 200


class Model(Towers):
    """The towers with the loss of a batch, as transformers wants it."""

    def __init__(self, record):
        super().__init__()
        self.record = record

    def towers(self, x, y):
        return super().forward(x, y)

    def forward(self, x, y, row):
        loss = contrast(*self.towers(x, y))
        if self.training:
            self.record.add("all", row, float(loss.detach()))
        return {"loss": loss}


def sentences(record):
    """A toy encoder and texts; the rows are found by their tokens."""
    from sentence_transformers.sentence_transformer import losses
    from toy_encoder import RowsOfTexts, sentence_encoder, text_pairs

    dataset, model = text_pairs(ROWS), sentence_encoder()
    rows_of = RowsOfTexts(dataset["anchor"])
    forward = losses.MultipleNegativesRankingLoss.forward

    def watched(self, features, *words, **named):
        loss = forward(self, features, *words, **named)
        if torch.is_grad_enabled():
            record.add("all", rows_of(next(iter(features))["input_ids"]), float(loss.detach()))
        return loss

    losses.MultipleNegativesRankingLoss.forward = watched
    return {"dataset": dataset, "model": model}


def lightning(record):
    """A module around the same model."""
    import lightning.pytorch as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model(record)
            self.towers = self.model.towers

        def training_step(self, batch, number):
            return self.model(**batch)["loss"]

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    return {"dataset": Pairs(ROWS), "model": Module()}


def plain(record):
    return {"dataset": Pairs(ROWS), "model": Model(record)}


if __name__ == "__main__":
    framework, folder = sys.argv[1:]
    os.chdir(folder)
    begin()
    record = Record()
    given = {"sentence-transformers": sentences, "Lightning": lightning}.get(framework, plain)(record)
    exec(compile(Path("block.py").read_text(), "README.md", "exec"), {"__name__": "__main__", **given})
    record.save(folder, "rows", 0)
