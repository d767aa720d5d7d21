"""Compile numeric loops with numba, once for each machine instead of once for each call."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, update_wrapper
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

Loop = TypeVar("Loop", bound=Callable[..., object])

_LOADING = Lock()


def compiled(loop: Loop) -> Loop:
    """The loop as machine code that releases the interpreter lock.

    The code is kept where numba looks for it: NUMBA_CACHE_DIR, else beside the source, else (a read-only source tree)
    in the user's cache folder; where none can be written it is compiled in every process. No fast-math: floating-point
    sums keep their order, so that results have the same bits however the work is divided.
    """
    return cast(Loop, _Compiled(loop))


def needs_compiling(loop: Callable[..., object]) -> bool:
    """Whether calling the loop is about to compile it, as far as the names of the files kept tell; takes seconds."""
    code = cast(_Compiled, loop).machine_code
    folder, loop = code.stats.cache_path, code.py_func
    kept = f"{Path(loop.__code__.co_filename).stem}.{loop.__qualname__}-*.nbi"
    return not code.signatures and (folder is None or not any(Path(folder).glob(kept)))


def is_own(folder: Path) -> bool:
    """Whether a folder and its files belong to this user or to root, and no one else can write to them."""
    for status in (path.stat() for path in (folder, *folder.glob("*.nb[ic]"))):
        own_group = status.st_gid == status.st_uid  # the group of one user, where folders are writable to groups
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & (0o002 if own_group else 0o022):
            return False
    return True


class _Compiled:
    """Compiles when first called: importing numba takes a third of a second, which not every command needs."""

    def __init__(self, loop: Callable[..., object]) -> None:
        self._loop = cast(FunctionType, loop)
        update_wrapper(self, loop)

    def __call__(self, *args: object) -> object:
        return self.machine_code(*args)

    @cached_property
    def machine_code(self) -> Any:
        """The function as numba makes it, for calls from Python; nothing is loaded that others may have written."""
        with suppress(RuntimeError):
            kept = self._made(cache=True)
            stats = getattr(kept, "stats", None)  # none where NUMBA_DISABLE_JIT is set
            if stats is None or is_own(Path(stats.cache_path)):
                return kept
        return self._made()

    @cached_property
    def inner_code(self) -> Any:
        """For calls from other loops, whose code it becomes part of: without what a call from Python needs."""
        return self._made(no_cpython_wrapper=True)

    def _made(self, **options: bool) -> Any:
        make = _load_numba().njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)
        return make(self._with_compiled_callees())

    def _with_compiled_callees(self) -> FunctionType:
        """The loop with callees that numba can call, under a name that numba's cache finds for these rules alone."""
        loop = self._loop
        called = {name: callee.inner_code for name, callee in _globals_of(loop) if isinstance(callee, _Compiled)}
        copy = FunctionType(loop.__code__, {**loop.__globals__, **called}, loop.__name__, loop.__defaults__)
        copy.__module__, copy.__qualname__ = loop.__module__, f"{loop.__qualname__}-{self.rules}"
        return copy

    @cached_property
    def rules(self) -> str:
        """A hash of the loop, its types, its callees and their constants: numba compares the loop's own file alone, and
        fails where it kept a class that lies elsewhere now.
        """
        loop, code = self._loop, self._loop.__code__
        constants = [value.co_code if isinstance(value, CodeType) else value for value in code.co_consts]
        used = {
            name: value.rules if isinstance(value, _Compiled) else value
            for name, value in _globals_of(loop)
            if isinstance(value, _Compiled | bool | int | float | str | tuple)
        }
        said = repr((code.co_code, code.co_names, code.co_varnames, constants, loop.__annotations__, used))
        return blake2b(said.encode(), digest_size=8).hexdigest()


class Intrinsic(_Compiled):
    """A callee of compiled loops of the same file, written in LLVM's own words, as numba's `intrinsic` wants it."""

    @cached_property
    def inner_code(self) -> Any:
        from numba.extending import intrinsic

        return intrinsic(self._loop)


def _load_numba() -> Any:
    """numba; it imports scipy.linalg only to know that scipy is there, which gcbs requires: 0.12 s, saved."""
    import numba

    with _LOADING, suppress(ImportError, AttributeError):  # where numba asks in another way, it may
        from numba.np import linalg

        asks = linalg.ensure_blas
        linalg.ensure_blas = lambda: None
        from numba.np import arraymath

        for module in (linalg, arraymath):
            vars(module)["ensure_blas"] = asks
    return numba


def _globals_of(loop: FunctionType) -> list[tuple[str, object]]:
    return [(name, loop.__globals__[name]) for name in loop.__code__.co_names if name in loop.__globals__]
