"""Divide a loop over rows among the cores, in parts that do not depend on how many cores there are."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from gcbs_cli.similarity.backend import available_cpus


def in_parts(count: int, size: int, work: Callable[[int, int], object]) -> None:
    """Call work(start, stop) for consecutive ranges of at most `size` that cover range(count), several at once.

    `work` must release the interpreter lock to gain from it, and must write to its own range only.
    """
    bounds = [(start, min(start + size, count)) for start in range(0, count, size)]
    workers = min(available_cpus(), len(bounds))
    if workers <= 1:
        for start, stop in bounds:
            work(start, stop)
        return
    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(work, start, stop) for start, stop in bounds]:
            future.result()
