"""From unit rows to mined negatives and the loss with them: the steps of `gcbs mine`, without files."""

from dataclasses import dataclass

import numpy as np

from gcbs_cli.data.pairs import PairedRows
from gcbs_cli.data.positives import Positives, each_its_own
from gcbs_cli.mining.loss import mined_losses
from gcbs_cli.mining.negatives import Negatives, keys_listed, mine_negatives
from gcbs_cli.mining.schema import MinedGap, MinedLoss, MineReport, Scores
from gcbs_cli.planning.room import BYTES_PER_LISTED, Forecast, check_room, needed
from gcbs_cli.products.devices import choose_backend
from gcbs_cli.products.operations import Backend
from gcbs_cli.products.top_lists import likely_candidates
from gcbs_cli.settings.mine import MineSettings
from gcbs_cli.system.progress import Progress, Stopwatch

BYTES_PER_NEGATIVE = 64
"""Peak memory for a negative: found, joined, and laid in a table for the losses (measured)."""
BYTES_PER_KEY = 96
"""The same for a key of the rows that are being looked at (measured)."""
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
    positives = positives or each_its_own(pair.rows)
    expected = _forecast(pair, settings, positives, backend)
    check_room(pair, expected, settings.work, "mining", "use fewer --negatives or a smaller --range-max")
    with clock.step("negatives"):
        found = mine_negatives(pair, positives, settings, backend, watcher)
    with clock.step("losses"):
        loss = mined_losses(pair, found, settings)
    return Mined(found, _report(pair, settings, found, loss, backend.name, clock.seconds))


def _forecast(pair: PairedRows, settings: MineSettings, positives: Positives, backend: Backend) -> Forecast:
    """Candidates of the rows that are looked at together, and the memory of the lists."""
    keys = min(pair.rows, keys_listed(settings.choice.last_rank(positives.most) + positives.most))
    height = settings.work.chunk_rows or backend.tile_shape[0]
    listed = height * likely_candidates(keys, pair.rows)
    memory = needed(pair.rows, pair.dim, backend) + BYTES_PER_NEGATIVE * pair.rows * settings.choice.negatives
    return Forecast(memory + BYTES_PER_LISTED * listed + BYTES_PER_KEY * height * keys, 0, listed=listed)


def _report(
    pair: PairedRows,
    settings: MineSettings,
    found: Negatives,
    loss: MinedLoss,
    device: str,
    seconds: dict[str, float],
) -> MineReport:
    counts = np.bincount(found.query, minlength=pair.rows)
    gaps = {name: loss.global_ - getattr(loss, name) for name in ("random", "own", "shared")}
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
        loss=loss,
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
