"""The ways to make batches that are compared, by name: gcbs's own settings, and peers."""

from collections.abc import Callable, Iterable
from typing import Any

from peers.b3 import B3
from peers.kmeans import KMeans
from peers.mined import Mined
from peers.proximity import Proximity
from peers.spectral import Spectral
from peers.submodular import Submodular

from gcbs_cli.comparison.trial import OrderFunction
from gcbs_cli.settings.plan import PlanSettings, preset_defaults

BATCH_SIZE, TEMPERATURE = 64, 0.05
TOP16: dict[str, Any] = {"graph": "top-m", "top": 16}
OWN: dict[str, dict[str, Any]] = {
    "random": {"method": "random"},
    "rcm": {},
    "preset": {"preset": "train"},
    "metis": {"method": "metis", **TOP16},
    "refined": {"method": "metis", **TOP16, "refine": True},
    "knn-groups": {"method": "knn-groups"},
    "clusters": {"method": "clusters"},
    "neighbours": {"method": "neighbours"},
    "words": {"method": "words"},
}
"""rcm: GCBS's plan. The last four are those of batch-softmax contrast (BSC)."""
BY_METIS: dict[str, Any] = {"preset": "train", "method": "metis"}
VARIED = "preset by METIS"
"""What the variants are compared with: the preset as it was when they were run."""
VARIANTS: dict[str, dict[str, Any]] = {
    VARIED: BY_METIS,
    "margin 0.95": {**BY_METIS, "fn_margin": 0.95},
    "top 8": {**BY_METIS, "top": 8},
    "top 64": {**BY_METIS, "top": 64},
    "ranks 9–24": {**OWN["refined"], "rank_window": (8, 16)},
}
"""One setting changed, and ranks instead of a margin."""
PEERS: dict[str, Callable[[int], OrderFunction]] = {
    "b3": lambda _: B3(),
    "k-means": KMeans,
    "spectral": lambda batch_size: Spectral(batch_size, TEMPERATURE),
    "proximity": Proximity,
    "submodular": lambda batch_size: Submodular(batch_size, TEMPERATURE),
    "mined 1": lambda _: Mined(1),
    "mined 5": lambda _: Mined(5),
}
PLANS = [*OWN, *PEERS]
NEEDS_TEXTS = "words"


def plan_named(name: str, batch_size: int = BATCH_SIZE) -> PlanSettings | OrderFunction:
    """Settings, or a new planner for one run."""
    if name in PEERS:
        return PEERS[name](batch_size)
    return PlanSettings(batch_size=batch_size, temperature=TEMPERATURE, **{**OWN, **VARIANTS}[name])


def settings_of(plan: PlanSettings | OrderFunction) -> dict[str, Any]:
    """What differs from GCBS's plan, a preset spelt out, so that results of other settings are told apart."""
    if not isinstance(plan, PlanSettings):
        return {}
    return {**preset_defaults(plan.preset), **plan.model_dump(mode="json", exclude_defaults=True)}


def plans_for(names: Iterable[str], *, texts: bool) -> list[str]:
    """Those that the data can be planned by."""
    return [name for name in names if texts or name != NEEDS_TEXTS]
