"""What the control groups of this process still leave it: memory and processors, under version 2 and version 1.

A limit may stand at the process's own group or at any above it. Inside a container the own group is the root of what is
mounted, whatever path /proc/self/cgroup tells; so every folder on the path that is there is read, the root too.
"""

from collections.abc import Iterator
from pathlib import Path

MOUNTED = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")
NO_LIMIT = 1 << 60
"""Version 1 writes a number of about 2⁶³ where there is no limit."""


def memory_left(mounted: Path = MOUNTED, own: Path = OWN) -> list[int]:
    """Bytes that each limit on memory leaves; page cache that the kernel can drop counts as free."""
    left = []
    for folder in _groups(mounted, own, ""):
        limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
        if limit is not None and used is not None:
            left.append(limit - used + _inactive_files(folder))
    for folder in _groups(mounted / "memory", own, "memory"):
        limit, used = _number(folder / "memory.limit_in_bytes"), _number(folder / "memory.usage_in_bytes")
        if limit is not None and used is not None and limit < NO_LIMIT:
            left.append(limit - used + _inactive_files(folder))
    return [max(0, size) for size in left]


def processors(mounted: Path = MOUNTED, own: Path = OWN) -> list[float]:
    """Processors that each quota allows, such as 1.5."""
    allowed = []
    for folder in _groups(mounted, own, ""):
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit() and words[1].isdigit() and int(words[1]) > 0:
            allowed.append(int(words[0]) / int(words[1]))
    for name in ("cpu", "cpu,cpuacct"):
        for folder in _groups(mounted / name, own, "cpu"):
            quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
            if quota is not None and period and quota > 0:
                allowed.append(quota / period)
    return allowed


def _groups(mounted: Path, own: Path, controller: str) -> Iterator[Path]:
    """The root of a hierarchy and the groups below it down to the process's own, where they are there."""
    yield mounted
    for line in _text(own).splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and controller in parts[1].split(","):
            group = mounted
            for name in Path(parts[2]).parts[1:]:
                group = group / name
                if name == ".." or not group.is_dir():
                    break
                yield group


def _inactive_files(folder: Path) -> int:
    for line in _text(folder / "memory.stat").splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in ("inactive_file", "total_inactive_file") and words[1].isdigit():
            return int(words[1])
    return 0


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError):
        return ""
