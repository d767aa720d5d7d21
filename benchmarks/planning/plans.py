"""The ways to make batches that are compared, by name: gcbs's own settings, and peers."""

from collections.abc import Callable, Iterable
from typing import Any

from peers.b3 import B3
from peers.kmeans import KMeans
from peers.mined import Mined
from peers.proximity import Proximity
from peers.spectral import Spectral
from peers.submodular import Submodular

from gcbs_cli.comparison.trial import Planner
from gcbs_cli.settings.plan import PlanSettings

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
PEERS: dict[str, Callable[[], Planner]] = {
    "b3": B3,
    "k-means": lambda: KMeans(BATCH_SIZE),
    "spectral": lambda: Spectral(BATCH_SIZE, TEMPERATURE),
    "proximity": lambda: Proximity(BATCH_SIZE),
    "submodular": lambda: Submodular(BATCH_SIZE, TEMPERATURE),
    "mined 1": lambda: Mined(1),
    "mined 5": lambda: Mined(5),
}
PLANS = [*OWN, *PEERS]
NEEDS_TEXTS = "words"


def plan_named(name: str) -> PlanSettings | Planner:
    """Settings, or a new planner for one run."""
    return PlanSettings(batch_size=BATCH_SIZE, temperature=TEMPERATURE, **OWN[name]) if name in OWN else PEERS[name]()


def settings_of(plan: PlanSettings | Planner) -> dict[str, Any]:
    """What differs from GCBS's plan, a preset spelt out, so that results of other settings are told apart."""
    if not isinstance(plan, PlanSettings):
        return {}
    return {**plan.own_defaults(), **plan.model_dump(mode="json", exclude_defaults=True)}


def plans_for(names: Iterable[str], *, texts: bool) -> list[str]:
    """Those that the data can be planned by."""
    return [name for name in names if texts or name != NEEDS_TEXTS]
