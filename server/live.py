"""A job between its creation and its end, as this process knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from server.jobs import Job, JobError
from server.progress import JobProgress


class LiveJob:
    """A job that is queued or running in this process."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.progress = JobProgress(job.progress)
        self.ended = asyncio.Event()
        """Set when the store holds the job's last state, or has forgotten it."""
        self.fragments: asyncio.Queue[bytes | None] = asyncio.Queue()
        """Pieces of a streamed job as they are made; None after the last one."""
        self.stored = asyncio.Event()
        """Set when the store knows the job, or has refused it; nothing else happens to it before."""
        self.refused = asyncio.Event()
        """Set while the store cannot write what has become of it."""
        self.cancelled: JobError | None = None
        """Why it is to end, wherever on its way it is."""
        self.waiters = 0
        """Requests that wait for its result now: one, or the repetitions of one."""
        self.sent = False
        """Whether a piece of it is on its way to a client."""
        self._deadline: asyncio.TimerHandle | None = None

    def send(self, piece: bytes) -> None:
        """Pass on a piece of a streamed job."""
        self.sent = True
        self.fragments.put_nowait(piece)

    def expire_after(self, seconds: float, act: Callable[[], None]) -> None:
        """Call `act` unless the job ends, or is to start again, within so many seconds."""
        self._deadline = asyncio.get_running_loop().call_later(seconds, act)

    def restart(self) -> None:
        """It waits again, as if it had not been begun."""
        self.progress = JobProgress(self.progress.percent)
        self._drop_deadline()

    def end(self) -> None:
        """Let go of all who wait for it."""
        self._drop_deadline()
        self.fragments.put_nowait(None)
        self.ended.set()

    def _drop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Slot:
    """A place on the engine, given back once however often it is released."""

    def __init__(self, slots: asyncio.Semaphore) -> None:
        self._slots: asyncio.Semaphore | None = slots

    def release(self) -> None:
        if self._slots is not None:
            self._slots.release()
            self._slots = None


class Signal:
    """Wakes all who wait for the next change of anything."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def next(self) -> asyncio.Event:
        """Set at the next change; take it before looking, so that no change is missed."""
        return self._next

    def fire(self) -> None:
        """Something changed."""
        self._next.set()
        self._next = asyncio.Event()
