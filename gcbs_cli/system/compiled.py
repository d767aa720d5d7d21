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


def needs_compiling(loop: Callable[..., object]) -> bool:
    """Whether calling the loop will compile it, which takes seconds, judging by the names of the cached files."""
    code = cast(_Compiled, loop).machine_code
    if not hasattr(code, "stats"):  # NUMBA_DISABLE_JIT: Python runs the loop
        return False
    return not code.signatures and not any(Path(f"{code.stats.cache_path}").glob(f"*.{code.__qualname__}-*.nbi"))


def is_own(folder: Path) -> bool:
    """Whether a folder and its cached code belong to this user or to root, and no one else can write to them."""
    for status in (path.stat() for path in (folder, *folder.glob("*.nb[ic]"))):
        private_group = status.st_gid == status.st_uid  # on many systems each user has a group of their own
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & (0o002 if private_group else 0o022):
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
        with suppress(RuntimeError):  # numba finds no folder that it can write to
            code: Any = njit(cache=True, nogil=True, error_model="numpy")(self._loop)
            if not hasattr(code, "stats") or is_own(Path(code.stats.cache_path)):
                return code
        return njit(nogil=True, error_model="numpy")(self._loop)

    def version(self) -> str:
        """A hash of the loop's file, its callees' and the constants: numba compares the loop's own file alone."""
        used = [self._loop.__globals__.get(name) for name in self._loop.__code__.co_names]
        parts = [value.version() if isinstance(value, _Compiled) else repr(value) for value in used]
        parts.append(Path(self._loop.__code__.co_filename).read_text(encoding="utf-8"))
        return blake2b("".join(parts).encode(), digest_size=8).hexdigest()
