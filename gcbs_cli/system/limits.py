"""How much memory and how many processors this process may still take, and sizes as people write them.

A limit of a control group may stand at the process's own group or at any above it. Inside a container the own group is
the root of what is mounted, whatever path /proc/self/cgroup names; so every folder on the path that exists is read, the
root too. Groups of version 1, which systems of 2022 and later do not have, are not read.
"""

import os
import re
import resource
from pathlib import Path

from gcbs_cli.system.errors import BadInput

SHARE_TO_USE = 0.8
"""A command takes at most this share of the memory that is free now, unless --max-memory names another limit."""
LIBRARIES_MAP = 640 * 2**20
"""Address space of the libraries, which crash or hang where it is less (measured with `mine`: it loads most)."""
A_THREAD_MAPS = 80 * 2**20
TORCH_MAPS = 560 * 2**20
"""Address space of torch beside the libraries (measured with `compare --train`)."""
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUP = Path("/proc/self/cgroup")
MOST_BYTES = 1 << 60
ASSUMED_MEMORY = 8 * 2**30
"""Bytes, where the system does not tell what is free."""
_SIZE = re.compile(r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)


def parse_size(size: object) -> int:
    """Bytes from a number, or from a text such as 512M, 4GiB or 4g (powers of two); at most 2⁶⁰. Raises ValueError."""
    match = _SIZE.fullmatch(str(size))
    if match is None:
        raise ValueError(f"{size}: expected a size")
    return int(min(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "), MOST_BYTES))


def show_size(size: float) -> str:
    """A number of bytes for people: 1.5 GiB."""
    from pydantic import ByteSize

    return ByteSize(size).human_readable(separator=" ")


def available_memory() -> int:
    """Bytes that may still be taken: the machine's free memory, the cgroup's and the address space limit's rest."""
    return max(0, min([_free_on_machine(), *cgroup_memory(), *_left_of_address_space()]))


def check_address_space(beside: int = 0) -> None:
    """Raises BadInput when a limit (ulimit -v) leaves too little for libraries that would abort."""
    least = LIBRARIES_MAP + beside + A_THREAD_MAPS * (available_cpus() - 1)
    left = min(_left_of_address_space(), default=least)
    if left < least:
        raise BadInput(
            f"the limit on memory (ulimit -v) leaves {show_size(max(0, left))}, and {show_size(least)} are needed "
            "before data is read; raise it, or set OMP_NUM_THREADS=1"
        )


def _free_on_machine() -> int:
    available = re.search(r"^MemAvailable:\s*(\d+)", _text(Path("/proc/meminfo")), re.MULTILINE)
    return ASSUMED_MEMORY if available is None else int(available[1]) * 1024


def _left_of_address_space() -> list[int]:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    mapped = _text(Path("/proc/self/statm")).split()
    if limit == resource.RLIM_INFINITY or not mapped:
        return []
    return [limit - int(mapped[0]) * resource.getpagesize()]


def available_cpus() -> int:
    """Threads that this process may use: its affinity, its cgroup's quota and OMP_NUM_THREADS, whichever is least."""
    cpus = float(len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else float(os.cpu_count() or 1)
    requested = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if requested.isdecimal() and int(requested) > 0:
        cpus = min(cpus, float(requested))
    return max(1, int(min([cpus, *cgroup_processors()])))


def cgroup_memory(mounted: Path = CGROUPS, own: Path = OWN_CGROUP) -> list[int]:
    """Bytes that each limit on memory leaves; page cache that the kernel can drop counts as free."""
    left = []
    for group in _groups(mounted, own):
        limit, used = _text(group / "memory.max"), _text(group / "memory.current")
        if limit.isdigit() and used.isdigit():
            droppable = re.search(r"^inactive_file (\d+)", _text(group / "memory.stat"), re.MULTILINE)
            left.append(int(limit) - int(used) + int(droppable[1] if droppable else 0))
    return left


def cgroup_processors(mounted: Path = CGROUPS, own: Path = OWN_CGROUP) -> list[float]:
    """Processors that each quota allows, such as 1.5."""
    texts = [_text(group / "cpu.max") for group in _groups(mounted, own)]
    quotas = [re.fullmatch(r"(\d+) ([1-9]\d*)", text) for text in texts]
    return [int(quota[1]) / int(quota[2]) for quota in quotas if quota]


def _groups(mounted: Path, own: Path) -> list[Path]:
    """The root and the groups below it down to the process's own, whether they exist or not."""
    paths = re.findall(r"^0::/(?!\.\.)(.*)", _text(own), re.MULTILINE)  # one from .. on lies outside of what is mounted
    below = Path(*paths)
    return sorted(mounted / group for group in (below, *below.parents))


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, ValueError):
        return ""
