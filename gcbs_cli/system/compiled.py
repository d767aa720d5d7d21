"""Compile numeric loops with numba, once for each machine instead of once for each call."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., object])


def compiled(loop: Loop) -> Loop:
    """The loop as machine code that releases the interpreter lock. Without fast-math sums keep their order and bits."""
    return cast(Loop, _Compiled(loop))


def is_own(folder: Path) -> bool:
    """Whether a folder and its cached code belong to this user or to root, and no one else can write to them."""
    for status in (path.stat() for path in (folder, *folder.glob("*.nb[ic]"))):
        others = 0o002 if status.st_gid == status.st_uid else 0o022  # many systems give each user a group of their own
        if status.st_mode & others or status.st_uid not in (os.geteuid(), 0):
            return False
    return True


class _Compiled:
    _numba_type_ = property(lambda self: self.machine_code._numba_type_)  # asked for where another loop calls it

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def __call__(self, *args: Any) -> Any:
        return self.machine_code(*args)

    @cached_property
    def machine_code(self) -> Any:
        """The function as numba makes it, or loads it; what others may have written is not loaded, for it would run."""
        from numba import njit  # half a second, which not every command needs

        self._loop.__qualname__ = f"{self._loop.__name__}-{self.version()}"
        with suppress(RuntimeError, AttributeError):  # no folder to write to; no stats with NUMBA_DISABLE_JIT
            code: Any = njit(cache=True, nogil=True, error_model="numpy")(self._loop)
            if is_own(Path(code.stats.cache_path)):
                return code
        return njit(nogil=True, error_model="numpy")(self._loop)

    def version(self) -> str:
        """A hash of the loop's file, its callees' and the constants: numba compares the loop's own file alone."""
        used = map(self._loop.__globals__.get, self._loop.__code__.co_names)
        parts = "".join(value.version() if isinstance(value, _Compiled) else repr(value) for value in used)
        return blake2b(Path(self._loop.__code__.co_filename).read_bytes() + parts.encode(), digest_size=8).hexdigest()
