"""What follows the method: rows kept apart, swaps, groups mixed, batches shuffled."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.orders import PlannerInput
from gcbs_cli.orders.batch_order import mix_groups, shuffle_batches
from gcbs_cli.orders.keeping_apart import NO_LABELS, keep_apart
from gcbs_cli.orders.refinement import Refinement, compiled_already, refine
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.progress import Stopwatch


def finish(
    perm: NDArray[np.int64], given: PlannerInput, settings: PlanSettings, clock: Stopwatch
) -> tuple[NDArray[np.int64], Refinement | None]:
    """The order as it is saved, and what the refinement did where one was asked for.

    Raises BadInput where rows that must be apart cannot be.
    """
    labels = NO_LABELS if given.labels is None else given.labels
    with clock.step("order"):
        perm = keep_apart(perm, labels, given.batch_size, settings.seed)
    refinement = None
    if settings.refine and given.batch_size > 1:
        if not compiled_already():
            clock.note("compiling the refinement for this machine, some seconds; kept for the next time if it can be")
        with clock.step("refine"):
            refinement = refine_plan(perm, given, settings)
            perm = refinement.perm
    order = settings.batch_order
    with clock.step("order"):
        if order.group_size is not None and order.group_size < settings.batch_size:
            perm = keep_apart(
                mix_groups(perm, order.group_size, settings.seed), labels, settings.batch_size, given.seed
            )
        if order.shuffle:
            perm = shuffle_batches(perm, settings.batch_size, settings.seed)
    return perm, refinement


def refine_plan(perm: NDArray[np.int64], given: PlannerInput, settings: PlanSettings) -> Refinement:
    """Swaps on the weighted graph of the plan, with its suspected pairs and rows to be kept apart."""
    return refine(
        perm,
        given.gains(given.suspects, penalty=settings.false_negatives.weight),
        given.batch_size,
        labels=NO_LABELS if given.labels is None else given.labels,
        seed=settings.seed,
        seconds=settings.refine_seconds,
    )
