"""The jobs that wait: in order of arrival for each owner, the owners in turn."""

from __future__ import annotations

import asyncio
from collections import deque


class JobQueue:
    """Ids of waiting jobs. An owner with a thousand jobs delays another one's first by a single job."""

    def __init__(self) -> None:
        # Owners in the order of their turns, without any that has nothing waiting.
        self._lines: dict[str, deque[str]] = {}
        self._owners: dict[str, str] = {}
        self._places: dict[str, int] | None = None
        self._filled = asyncio.Event()

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._owners

    def push(self, job_id: str, owner: str, *, first: bool = False) -> None:
        """Let a job wait behind the others of its owner, or `first` among them."""
        line = self._lines.setdefault(owner, deque())
        if first:
            line.appendleft(job_id)
        else:
            line.append(job_id)
        self._owners[job_id] = owner
        self._changed()

    def pop(self) -> str:
        """The next job; its owner's turn comes again after all others'.

        Raises:
            IndexError: none waits.
        """
        if not self._lines:
            raise IndexError("no job waits")
        owner = next(iter(self._lines))
        line = self._lines.pop(owner)
        job_id = line.popleft()
        if line:
            self._lines[owner] = line
        del self._owners[job_id]
        self._changed()
        return job_id

    def remove(self, job_id: str) -> bool:
        """Take a job out, wherever it stands; False if it does not wait."""
        owner = self._owners.pop(job_id, None)
        if owner is None:
            return False
        line = self._lines[owner]
        line.remove(job_id)
        if not line:
            del self._lines[owner]
        self._changed()
        return True

    def position(self, job_id: str) -> int | None:
        """How many jobs would begin before this one if none came or went; None unless it waits."""
        if self._places is None:  # asked for by every poll, and changed by few
            self._places = {job: place for place, job in enumerate(self._in_order())}
        return self._places.get(job_id)

    async def wait(self) -> None:
        """Return when a job waits."""
        await self._filled.wait()

    def _in_order(self) -> list[str]:
        lines = [list(line) for line in self._lines.values()]
        longest = max(map(len, lines), default=0)
        return [line[turn] for turn in range(longest) for line in lines if turn < len(line)]

    def _changed(self) -> None:
        self._places = None
        if self._owners:
            self._filled.set()
        else:
            self._filled.clear()
