"""What follows the method: rows kept apart, rows without an edge dealt, swaps, groups mixed, batches shuffled."""

import numpy as np
from numpy.typing import NDArray

from gcbs_cli.orders.given import PlannerInput
from gcbs_cli.orders.keeping_apart import NO_LABELS, keep_apart
from gcbs_cli.orders.refinement import Refinement, refine
from gcbs_cli.orders.swap_order import Order, change_places, may_swap, order_of
from gcbs_cli.orders.swaps import propose
from gcbs_cli.settings.plan import PlanSettings
from gcbs_cli.system.compiled import compiled, needs_compiling
from gcbs_cli.system.progress import Stopwatch


def finish(
    perm: NDArray[np.int64],
    given: PlannerInput,
    settings: PlanSettings,
    clock: Stopwatch,
    degrees: NDArray[np.int64] | None,
) -> tuple[NDArray[np.int64], Refinement | None]:
    """The order as it is saved, and what the refinement did where one was asked for.

    `degrees`: (N,) the number of edges of each row, None where the method used no graph.
    Raises BadInput where rows that must be apart cannot be.
    """
    labels = NO_LABELS if given.labels is None else given.labels
    with clock.step("order"):
        perm = keep_apart(perm, labels, given.batch_size, settings.seed)
        if degrees is not None:
            perm = deal_unconnected(perm, degrees, labels, given.batch_size, settings.seed)
    refinement = None
    if settings.refine and given.batch_size > 1:
        if needs_compiling(propose):
            clock.note("compiling the refinement for this machine, some seconds; kept for the next time if it can be")
        with clock.step("refine"):
            refinement = refine_plan(perm, given, settings)
            perm = refinement.perm
    with clock.step("order"):
        if settings.group_size is not None and settings.group_size < settings.batch_size:
            perm = keep_apart(
                mix_groups(perm, settings.group_size, settings.seed), labels, settings.batch_size, given.seed
            )
        if settings.shuffle_batches:
            perm = shuffle_batches(perm, settings.batch_size, settings.seed)
    return perm, refinement


def refine_plan(perm: NDArray[np.int64], given: PlannerInput, settings: PlanSettings) -> Refinement:
    """Swaps on the weighted graph of the plan, with its suspected pairs and rows to be kept apart."""
    return refine(
        perm,
        given.gains(given.suspects, penalty=settings.fn_weight),
        given.batch_size,
        labels=NO_LABELS if given.labels is None else given.labels,
        seed=settings.seed,
        seconds=settings.time_limit,
    )


def deal_unconnected(
    perm: NDArray[np.int64],
    degrees: NDArray[np.int64],
    labels: NDArray[np.int64],
    batch_size: int,
    seed: int,
) -> NDArray[np.int64]:
    """The order with the rows of degree 0 at random in the places that such rows have.

    An order of the graph leaves them as they come in the data. Rows that `labels` keep apart stay apart.
    """
    places = np.flatnonzero(degrees[perm] == 0)
    others = np.random.default_rng([seed, 0xA10E]).integers(np.arange(1, len(places) + 1))
    order = order_of(perm, labels, batch_size)
    _exchange(order, places, others)
    return order.perm


@compiled
def _exchange(order: Order, places: NDArray[np.int64], others: NDArray[np.int64]) -> None:
    """Fisher and Yates' shuffle, but for exchanges that labels forbid."""
    for n in range(len(places) - 1, 0, -1):
        u, v = order.perm[places[n]], order.perm[places[others[n]]]
        if order.batch[u] == order.batch[v] or may_swap(u, v, order):
            change_places(u, v, order)


def mix_groups(perm: NDArray[np.int64], group_size: int, seed: int) -> NDArray[np.int64]:
    """The same groups of `group_size` consecutive rows in random order, the short one last.

    Batches of several groups are hard within each group and random between them: group size 1 is a random order, and
    group size k leaves the plan as hard as it was.
    """
    return _reorder(perm, group_size, np.random.default_rng([seed, 0x6200]).permutation(len(perm) // group_size))


def shuffle_batches(perm: NDArray[np.int64], batch_size: int, seed: int) -> NDArray[np.int64]:
    """Full batches in random order, the short one last."""
    return _reorder(perm, batch_size, np.random.default_rng([seed, 0x5F1E]).permutation(len(perm) // batch_size))


def _reorder(perm: NDArray[np.int64], size: int, order: NDArray[np.int64]) -> NDArray[np.int64]:
    full = len(order) * size
    return np.concatenate([perm[:full].reshape(-1, size)[order].reshape(-1), perm[full:]])
