"""How much memory and how many processors this process may still take, and sizes as people write them."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from gcbs_cli.system import cgroups
from gcbs_cli.system.errors import BadInput

SHARE_TO_USE = 0.8
"""Of the memory that is free now, how much a plan may take when nothing is asked."""
LEAST_ADDRESS_SPACE = 320 * 2**20
"""What the numeric libraries map and take for themselves, with a margin (a small plan ran within 400 MiB in all)."""
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)


def parse_size(text: str, option: str) -> int:
    """Bytes from 1500000, 512M, 4GiB or 4g (powers of two). Raises BadInput that names the option."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadInput(f"{option} {text}: expected a size such as 800M or 4G")
    return int(float(match.group(1)) * _UNITS[match.group(2).lower()])


def show_size(size: float) -> str:
    """A number of bytes for people: 1.5 GiB."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def available_memory() -> int:
    """Bytes that may still be taken: the machine's free memory, the cgroup's and the address space limit's rest."""
    return max(0, min([_free_on_machine(), *cgroups.memory_left(), *_left_of_address_space()]))


def check_address_space() -> None:
    """Raises BadInput when a limit (ulimit -v) leaves too little for libraries that would abort."""
    left = min(_left_of_address_space(), default=LEAST_ADDRESS_SPACE)
    if left < LEAST_ADDRESS_SPACE:
        raise BadInput(
            f"the limit on memory (ulimit -v) leaves {show_size(max(0, left))}, and {show_size(LEAST_ADDRESS_SPACE)} "
            "are needed before any data; raise it, to ulimit -v 1000000 for a small plan"
        )


def _free_on_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return 8 * 2**30


def _left_of_address_space() -> list[int]:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return []
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return [limit - pages * resource.getpagesize()]
    except (ImportError, OSError, ValueError):
        return []


def available_cpus() -> int:
    """Threads that this process may use: its affinity, its cgroup's quota and OMP_NUM_THREADS, whichever is least."""
    cpus = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else float(os.cpu_count() or 1)
    cpus = min([cpus, *cgroups.processors(), *_requested_threads()])
    return max(1, int(cpus))


def _requested_threads() -> Iterator[float]:
    text = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if text.isdigit() and int(text) > 0:
        yield float(text)
