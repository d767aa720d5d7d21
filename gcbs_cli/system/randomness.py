"""Where randomness comes from: every use of a seed has a stream of its own, so that no two draw the same numbers.

Only what stands alone draws from the seed without a stream: the negatives that `gcbs mine` samples, the order of
batches within an epoch of a trial, and a trainer's first epoch in random order. METIS and torch take the seed itself.
"""

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What is drawn. A number that changes, changes the bytes of users' plans."""

    RANDOM_ORDER = 0x5EED
    """The method `random`, which every plan is compared with."""
    ROWS_WITHOUT_EDGE = 0xA10E
    """The places of rows that the graph says nothing of."""
    GROUP_ORDER = 0x5F1E
    """The order of groups or batches that are mixed."""
    KEEPING_APART = 0xA9A7
    """Which rows change places where no swap keeps all labels apart."""
    SHUFFLING = 0xB5C
    """The methods of batch-softmax contrast."""
    REFINEMENT = 0x5A4B
    """Which swaps the refinement tries."""
    BACKGROUND_KEYS = 0xBAC6
    """The keys by which a weight knows what a row's sum in a random batch is."""
    THRESHOLD_SAMPLE = 0x9C8
    """The rows and columns of which the quantile is taken."""
    LIKELY_LIMITS = 0x4A2D
    """The keys that say from where on an entry may be among a row's hardest; the lists do not depend on them."""
    CENTRES = 0x9A47
    """Where the centres of parts begin."""
    CENTRES_SAMPLE = 0x9A48
    """The pairs that the centres of parts are learned from."""
    TRIALS = 0x7121A1
    """The random orders that a report measures, one a trial."""
    REPORT_BATCHES = 0x5A3D
    """The batches of `gcbs report --rows`."""
    UNIFORMITY_SAMPLE = 0x0F1
    """The rows of which the uniformity is taken."""
    BATCH_ORDER = 0xBA7C4
    """The order of batches in an epoch of a sampler, one an epoch."""

    def generator(self, seed: int, number: int | None = None) -> np.random.Generator:
        """The draws of this stream; number: of the trial or epoch, where each has its own."""
        return np.random.default_rng([seed, self] if number is None else [seed, self, number])
