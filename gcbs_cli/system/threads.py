"""Work given to threads, results in order, and things that threads own."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from gcbs_cli.system.limits import available_cpus

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_parts(count: int, size: int, work: Callable[[int, int], object]) -> None:
    """Call work(start, stop) for consecutive ranges of at most `size` that cover range(count), several at once.

    `work` must release the interpreter lock to gain from it, and must write to its own range only.
    """
    bounds = [(start, min(start + size, count)) for start in range(0, count, size)]
    for _ in in_order(max(1, min(available_cpus(), len(bounds))), bounds, lambda part: work(*part)):
        pass


def in_order(workers: int, items: Iterable[Item], work: Callable[[Item], Result]) -> Iterator[Result]:
    """`work(item)` for each item, in the order of the items; at most two a worker are under way at once.

    Each item goes to the next worker that is free. One worker is this thread.
    """
    if workers == 1:
        yield from map(work, items)
        return
    pool, waiting = ThreadPoolExecutor(workers), deque[Future[Result]]()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        # Joins no thread: where a search for garbage ends an iterator that was given up, this thread may hold the lock
        # that the end of the other one needs.
        wait([future for future in waiting if not future.cancel()])
        pool.shutdown(wait=False)


class OwnedByThreads(threading.local, Generic[Item]):
    """What each thread that asks owns, for as long as it lives: the next of `turns`."""

    def __init__(self, turns: Iterator[Item]) -> None:
        self.mine = next(turns)  # threading.local calls this anew in each thread
