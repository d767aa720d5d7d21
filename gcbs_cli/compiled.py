"""Compile numeric loops with numba, once for each machine instead of once for each call."""

from collections.abc import Callable
from typing import TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., object])


def compiled(loop: Loop) -> Loop:
    """The loop as machine code that releases the interpreter lock.

    The code is kept where numba looks for it: NUMBA_CACHE_DIR, else beside the source, else (a read-only source tree)
    in the user's cache folder; where none can be written it is compiled in every process. No fast-math: floating-point
    sums keep their order, so that results have the same bits however the work is divided.
    """
    from numba import njit

    try:
        return cast(Loop, njit(cache=True, nogil=True)(loop))
    except RuntimeError:
        return cast(Loop, njit(nogil=True)(loop))
