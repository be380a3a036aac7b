"""How much memory of the host this process may still take: the machine's, and its container's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

_ROOT = Path("/sys/fs/cgroup")
_OURS = Path("/proc/self/cgroup")


def available_bytes(root: Path = _ROOT, ours: Path = _OURS) -> int:
    """The smaller of what the machine has and what the limits of our control groups leave, at least 0.

    `root`: where the groups are mounted; `ours`: where the kernel says which ones are ours. In a container
    the machine's figure says nothing of the limit, beyond which the kernel ends the process. Where there are
    no such files there is no such limit.
    """
    return min([psutil.virtual_memory().available, *_left(root, ours)])


@dataclass(frozen=True, slots=True)
class _Layout:
    """Files of a group with its limit and its use, and rows of its `memory.stat` with files' pages in that.

    Those can be taken back, and the machine's own figure counts on that too; tmpfs has none among them.
    """

    limit: str
    used: str
    reclaimable: tuple[str, str]


_V1 = _Layout("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
_V2 = _Layout("memory.max", "memory.current", ("inactive_file", "active_file"))


def _left(root: Path, ours: Path) -> Iterator[int]:
    """What each limit of our groups leaves: a group's counts for all groups below it."""
    for line in (_text(ours) or "").splitlines():
        number, controllers, group = line.split(":", 2)
        if number == "0":
            folders, layout = _upwards(root, group), _V2
        elif "memory" in controllers.split(","):
            folders, layout = _upwards(root / "memory", group), _V1
        else:
            continue
        for folder in folders:
            if (left := _left_in(folder, layout)) is not None:
                yield left


def _upwards(root: Path, group: str) -> Iterator[Path]:
    """The folder of `group` and of each one above it, up to `root`.

    A container may see its own group as `root`, and a name that only the machine knows: those folders are
    missing then. A name with `..` is of a group outside of what it sees.
    """
    path = PurePosixPath(group.lstrip("/"))
    if ".." not in path.parts:
        yield from (root / above for above in (path, *path.parents) if above.parts)
    yield root


def _left_in(folder: Path, layout: _Layout) -> int | None:
    """None: there is no limit."""
    limit, used = _text(folder / layout.limit), _text(folder / layout.used)
    if limit is None or used is None or limit.strip() == "max":
        return None
    rows = dict(line.split(" ", 1) for line in (_text(folder / "memory.stat") or "").splitlines())
    reclaimable = sum(int(rows.get(name, 0)) for name in layout.reclaimable)
    return max(0, int(limit) - int(used) + reclaimable)


def _text(file: Path) -> str | None:
    """What a file holds; None where there is none, or none for us."""
    try:
        return file.read_text()
    except OSError:
        return None
