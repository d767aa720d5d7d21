"""What `gcbs mine --json` prints. Losses and gaps are in nats; a ratio 0/0 is null."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    # `global_` is written and read as `global`, which Python keeps for itself.
    model_config = ConfigDict(
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        extra="forbid",
        alias_generator=lambda name: name.rstrip("_"),
    )


class MinedLoss(_Part):
    """Mean losses over rows and trials."""

    global_: float
    """With all keys."""
    random: float
    """Of random batches alone."""
    own: float
    """And each row's own negatives."""
    shared: float
    """And the negatives of all rows of the batch, as sentence-transformers' MultipleNegativesRankingLoss sees them."""


class MinedGap(_Part):
    """L_global − L_train; reductions: 1 − gap / random's."""

    random: float
    own: float
    shared: float
    own_reduction: float | None
    shared_reduction: float | None


class Scores(_Part):
    """Mean similarities: of the positive pairs, of the mined negatives (null without any)."""

    positive: float
    negative: float | None


class MineReport(_Part):
    """One run. `mined`: lines written; `short`: queries with fewer negatives than asked; `skipped`: by reason."""

    n: int
    dim: int
    mined: int
    short: int
    skipped: dict[str, int]
    scores: Scores
    loss: MinedLoss
    gap: MinedGap
    settings: dict[str, Any]
    device: str
    timings: dict[str, float]
