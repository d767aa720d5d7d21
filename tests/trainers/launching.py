"""How tests of trainers start several processes."""

from collections.abc import Callable
from pathlib import Path

Launch = Callable[..., Path]
"""Run a worker script, perhaps under a launcher; returns the folder of its records."""


def torchrun(ranks: int) -> list[str]:
    """torchrun on loopback, with a port of its own."""
    return ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(ranks)]
