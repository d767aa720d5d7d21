"""From unit rows to mined negatives and the loss with them: the steps of `gcbs mine`, without files."""

from dataclasses import dataclass

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.positives import Positives, each_its_own
from gcbs_cli.mining.loss import MinedLosses, mined_losses
from gcbs_cli.mining.negatives import Negatives, mine_negatives
from gcbs_cli.mining.schema import MinedGap, MinedLoss, MineReport, Scores
from gcbs_cli.products.operations import choose_backend
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.system.progress import Progress, Stopwatch

LEAST_GAP = 1e-6
"""Below this the gap is rounding, and a share of it says nothing."""


@dataclass(frozen=True)
class Mined:
    """The lists, and the figures about them."""

    negatives: Negatives
    report: MineReport


def mine(
    pair: PairedRows, settings: MineSettings, positives: Positives | None = None, watcher: Progress | None = None
) -> Mined:
    """Mine every row's negatives and compute the losses. Raises BadInput where the settings do not fit the data."""
    settings.check_rows(pair.rows)
    clock = Stopwatch(watcher or Progress())
    backend = choose_backend(settings.work.device)
    with clock.step("negatives"):
        found = mine_negatives(pair, positives or each_its_own(pair.rows), settings, backend, watcher)
    with clock.step("losses"):
        losses = mined_losses(pair, found, settings)
    return Mined(found, _report(pair, settings, found, losses, backend.name, clock.seconds))


def _report(
    pair: PairedRows,
    settings: MineSettings,
    found: Negatives,
    losses: MinedLosses,
    device: str,
    seconds: dict[str, float],
) -> MineReport:
    counts = np.bincount(found.query, minlength=pair.rows)
    gaps = {name: losses.global_loss - getattr(losses, name) for name in ("random", "own", "shared")}
    return MineReport(
        n=pair.rows,
        dim=pair.dim,
        mined=len(found.query),
        short=int(np.count_nonzero(counts < settings.choice.negatives)),
        skipped=found.skipped,
        scores=Scores(
            positive=float(pair.diagonal().mean()),
            negative=float(found.score.mean()) if len(found.score) else None,
        ),
        loss=MinedLoss(global_=losses.global_loss, random=losses.random, own=losses.own, shared=losses.shared),
        gap=MinedGap(
            **gaps,
            own_reduction=_reduction(gaps["own"], gaps["random"]),
            shared_reduction=_reduction(gaps["shared"], gaps["random"]),
        ),
        settings=settings.values,
        device=device,
        timings=seconds,
    )


def _reduction(gap: float, random: float) -> float | None:
    return None if random < LEAST_GAP else 1.0 - gap / random
