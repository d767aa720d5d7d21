"""What follows the method: rows kept apart, rows without an edge dealt, swaps, groups mixed, batches shuffled."""

import numpy as np

from gcbs_cli.orders.inputs import MethodInput
from gcbs_cli.orders.keeping_apart import keep_apart
from gcbs_cli.orders.refinement import Refinement, refine
from gcbs_cli.system.arrays import Ints
from gcbs_cli.system.progress import Stopwatch
from gcbs_cli.system.randomness import Stream


def finish(perm: Ints, inputs: MethodInput, labels: Ints, clock: Stopwatch) -> tuple[Ints, Refinement | None]:
    """The order as it is saved, and what the refinement did where one was asked for.

    labels: (G, N), rows with the same label >= 0 on one line never share a batch, as a method may leave them.
    Raises BadInput where rows that must be apart cannot be.
    """
    settings = inputs.settings
    seed = settings.seed
    with clock.step("order"):
        if inputs.graph is not None:
            # An order of the graph leaves rows without an edge as they come in the data.
            places = np.flatnonzero(inputs.graph.degrees[perm] == 0)
            perm[places] = Stream.ROWS_WITHOUT_EDGE.generator(seed).permutation(perm[places])
        perm = keep_apart(perm, labels, inputs.batch_size, seed)
    refinement = None
    if settings.refine and inputs.batch_size > 1:
        with clock.step("refine"):
            perm, refinement = refine(perm, inputs.gains(), inputs.batch_size, labels=labels, seed=seed)
    with clock.step("order"):
        if inputs.batch_size < settings.batch_size:
            perm = keep_apart(shuffle_groups(perm, inputs.batch_size, seed), labels, settings.batch_size, seed)
        if settings.shuffle_batches:
            perm = shuffle_groups(perm, settings.batch_size, seed)
    return perm, refinement


def plan_random(rows: int, seed: int) -> Ints:
    """(N,) a uniformly random permutation, the same for the same seed: what every trainer has without a plan."""
    return Stream.RANDOM_ORDER.generator(seed).permutation(rows)


def shuffle_groups(perm: Ints, size: int, seed: int) -> Ints:
    """Put the groups of `size` consecutive rows in random order, the short one last.

    Batches of several groups are hard within each group and random between them: size 1 is a random order, and size k
    leaves the plan as hard as it was.
    """
    full = len(perm) // size
    groups = Stream.GROUP_ORDER.generator(seed).permutation(perm[: full * size].reshape(full, size))
    return np.concatenate([groups.reshape(-1), perm[full * size :]])
