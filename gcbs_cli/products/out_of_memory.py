"""What is done when a device's memory does not suffice: smaller blocks, else one line that names what did not fit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from gcbs_cli.system.errors import OutOfDeviceMemory


def in_fitting_blocks(count: int, size: int, work: Callable[[int, int], None], *, least: int, what: str) -> int:
    """Call work(start, stop) for consecutive blocks of range(count); returns the size of block that was used last.

    Where a block runs out of the device's memory, `work` must have changed nothing; the block is halved and the work
    goes on from there. Raises OutOfDeviceMemory that names `what` when blocks of `least` do not fit either.
    """
    start = 0
    while start < count:
        stop = min(start + size, count)
        try:
            work(start, stop)
        except torch.OutOfMemoryError as error:
            if size <= least:
                raise OutOfDeviceMemory(what, "a higher --quantile, fewer rows") from error
            size = max(least, size // 2)
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        else:
            start = stop
    return size


@contextmanager
def naming_what_does_not_fit(what: str, instead: str) -> Iterator[None]:
    """Within it, running out of the device's memory raises OutOfDeviceMemory with these words."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfDeviceMemory(what, instead) from error
