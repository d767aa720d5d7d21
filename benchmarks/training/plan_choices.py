"""Ways to make a training epoch's batches, by name: settings of `gcbs_cli.plan` and what the trainer does beside it."""

import json
from dataclasses import dataclass, field
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

    `settings`: keywords of `gcbs_cli.plan`; `mined`: each row also brings its hardest negative (Hard Negative 1).
    """

    settings: dict[str, Any] = field(default_factory=dict)
    mined: bool = False


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
    "hard-negative": PlanChoice({"method": "random"}, mined=True),
}


def read_choice(text: str) -> tuple[str, PlanChoice]:
    """A name from CHOICES, or NAME={...} with keywords of `gcbs_cli.plan` and of PlanChoice as JSON."""
    name, given, settings = text.partition("=")
    if not given:
        if name not in CHOICES:
            raise ValueError(f"{name}: expected one of {', '.join(CHOICES)}, or NAME={{...}}")
        return name, CHOICES[name]
    wanted = json.loads(settings)
    mined = wanted.pop("mined", False)
    return name, PlanChoice(wanted, mined)


@dataclass(frozen=True)
class Planned:
    """An epoch's permutation (N,), and the seconds that planning took."""

    perm: NDArray[np.int64]
    seconds: float


def plan_epoch(
    choice: PlanChoice,
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    *,
    batch_size: int,
    temperature: float,
    seed: int,
) -> Planned:
    """Plan from the model's current outputs; the choice's own temperature comes first."""
    settings = {"temperature": temperature, **choice.settings}
    began = working_seconds()
    result = gcbs_cli.plan(x, y, batch_size=batch_size, seed=seed, **settings)
    seconds = working_seconds() - began
    return Planned(result.perm, seconds)


def hardest_negatives(x: NDArray[np.float32], y: NDArray[np.float32], rows_at_once: int = 2048) -> NDArray[np.int64]:
    """(N,) for each row of x its most similar row of y other than its own answer (GCBS's Hard Negative (1))."""
    found = np.empty(len(x), np.int64)
    for start in range(0, len(x), rows_at_once):
        scores = x[start : start + rows_at_once] @ y.T
        own = np.arange(len(scores))
        scores[own, start + own] = -np.inf
        found[start : start + rows_at_once] = scores.argmax(axis=1)
    return found
