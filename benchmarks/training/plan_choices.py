"""Ways to make a training epoch's batches, by name: settings of `gcbs_cli.plan` and what the trainer does beside it."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from contrastive import working_seconds
from numpy.typing import NDArray

import gcbs_cli

PLANNED_APART = {"fn_margin": 0.95, "fn_weight": 1.0}
"""Suspected pairs: their edges are dropped, and each that shares a batch costs the refinement `fn_weight`."""
METIS_TOP16: dict[str, Any] = {"method": "metis", "graph": "top-m", "top": 16}
RCM_REFINED: dict[str, Any] = {"method": "rcm", "graph": "top-m", "top": 16, "refine": True}


@dataclass(frozen=True)
class PlanChoice:
    """One way to plan.

    `settings`: keywords of `gcbs_cli.plan`; `mask_margin`: the loss leaves out pairs suspected by this margin;
    `in_plan_order`: batches are trained on in the plan's order (a curriculum), else in random order; `mined`: each row
    also brings its hardest negative (Hard Negative 1); `all_rows`: the loss of a batch is over all training rows, which
    no order can reach: a bound for the others, at seventy times their cost; with `mask_margin` without those
    suspected among them.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    mask_margin: float | None = None
    in_plan_order: bool = False
    mined: bool = False
    all_rows: bool = False

    @property
    def reads_texts(self) -> bool:
        """Whether the plan is made from the texts of the rows."""
        return self.settings.get("method") == "words"


CHOICES = {
    "random": PlanChoice({"method": "random"}),
    "rcm": PlanChoice({"method": "rcm"}),
    "cm": PlanChoice({"method": "cm"}),
    "rcm+refine": PlanChoice(RCM_REFINED),
    "metis": PlanChoice(METIS_TOP16),
    "metis+refine": PlanChoice({**METIS_TOP16, "refine": True}),
    "rcm+refine+apart": PlanChoice({**RCM_REFINED, **PLANNED_APART}),
    "metis+refine+apart": PlanChoice({**METIS_TOP16, "refine": True, **PLANNED_APART}),
    "rcm+refine+apart (0.2)": PlanChoice({**RCM_REFINED, **PLANNED_APART, "fn_weight": 0.2}),
    "metis+refine+apart (0.2)": PlanChoice({**METIS_TOP16, "refine": True, **PLANNED_APART, "fn_weight": 0.2}),
    "metis+refine+apart (0.2), mined": PlanChoice(
        {**METIS_TOP16, "refine": True, **PLANNED_APART, "fn_weight": 0.2}, mined=True
    ),
    "metis+dropped": PlanChoice({**METIS_TOP16, "fn_margin": 0.95}),
    "metis+dropped, tau 0.1": PlanChoice({**METIS_TOP16, "fn_margin": 0.95, "temperature": 0.1}),
    "knn-groups": PlanChoice({"method": "knn-groups"}),
    "clusters": PlanChoice({"method": "clusters"}),
    "neighbours": PlanChoice({"method": "neighbours"}),
    "words": PlanChoice({"method": "words"}),
    "hard-negative": PlanChoice({"method": "random"}, mined=True),
    "all-rows": PlanChoice({"method": "random"}, all_rows=True),
    "all-rows, masked": PlanChoice({"method": "rcm", "fn_margin": 0.95}, mask_margin=0.95, all_rows=True),
}
PLANNED = [name for name, choice in CHOICES.items() if not choice.all_rows]


def read_choice(text: str) -> tuple[str, PlanChoice]:
    """A name from CHOICES, or NAME={...} with keywords of `gcbs_cli.plan` and of PlanChoice as JSON."""
    name, given, settings = text.partition("=")
    if not given:
        if name not in CHOICES:
            raise ValueError(f"{name}: expected one of {', '.join(CHOICES)}, or NAME={{...}}")
        return name, CHOICES[name]
    wanted = json.loads(settings)
    choice = PlanChoice(
        mask_margin=wanted.pop("mask_margin", None),
        in_plan_order=wanted.pop("in_plan_order", False),
        mined=wanted.pop("mined", False),
        all_rows=wanted.pop("all_rows", False),
    )
    return name, replace(choice, settings=wanted)


@dataclass(frozen=True)
class Planned:
    """An epoch's permutation (N,), the seconds that planning took, and t of suspected pairs where it was estimated."""

    perm: NDArray[np.int64]
    seconds: float
    threshold: float | None


def plan_epoch(
    choice: PlanChoice,
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    *,
    batch_size: int,
    temperature: float,
    seed: int,
    texts: list[str] | None = None,
) -> Planned:
    """Plan from the model's current outputs; the choice's own temperature comes first. `texts`: one a row (words)."""
    settings = {"temperature": temperature, "texts": texts, **choice.settings}
    began = working_seconds()
    result = gcbs_cli.plan(x, y, batch_size=batch_size, seed=seed, **settings)
    seconds = working_seconds() - began
    return Planned(result.perm, seconds, result.threshold.similarity if result.threshold else None)


def hardest_negatives(x: NDArray[np.float32], y: NDArray[np.float32], rows_at_once: int = 2048) -> NDArray[np.int64]:
    """(N,) for each row of x its most similar row of y other than its own answer (GCBS's Hard Negative (1))."""
    found = np.empty(len(x), np.int64)
    for start in range(0, len(x), rows_at_once):
        scores = x[start : start + rows_at_once] @ y.T
        own = np.arange(len(scores))
        scores[own, start + own] = -np.inf
        found[start : start + rows_at_once] = scores.argmax(axis=1)
    return found
