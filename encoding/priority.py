"""Encoders' threads at the priority of everybody else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_TASKS = Path("/proc/self/task")


@contextmanager
def usual_priority() -> Iterator[None]:
    """Threads that the block starts, and the calling one, keep the scheduling policy that this one has.

    As root, SVT-AV1 gives itself and whoever opens it the highest real-time priority (SCHED_FIFO, 99), which
    processes inherit that are started later: with a busy core each, nothing else runs on the machine.
    """
    before, policy, priority = set(_threads()), os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        yield
    finally:
        for thread in (0, *(set(_threads()) - before)):
            with suppress(OSError):  # it has ended; or its policy is not ours to set, as it was not SVT-AV1's
                if os.sched_getscheduler(thread) != policy:
                    os.sched_setscheduler(thread, policy, priority)


def _threads() -> Iterator[int]:
    return (int(task.name) for task in _TASKS.iterdir())
