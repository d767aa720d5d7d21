"""How Triton kernels are launched from several threads, on a GPU that need not be the first."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def launching_on(rows: torch.Tensor) -> Iterator[None]:
    """Held while a kernel over these rows is launched; on a GPU the launch returns before the kernel ends.

    Triton launches on the thread's current GPU, whatever its arguments are; it compiles a kernel once if one thread
    launches at a time; and its interpreter, which the CPU uses, keeps its place in one variable of the process.
    """
    with _ONE_AT_A_TIME, torch.cuda.device(rows.get_device()):
        yield
