"""Hands jobs to the engine in turn, and follows each to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing

from server.background import Background
from server.engine.base import DeviceFree, Engine, Failed, Finished, Fragment, JobEvent, Progress, Started
from server.jobs import JobError, JobStatus
from server.ledger import Ledger
from server.live import LiveJob, Slot
from server.roster import Roster
from server.storage import is_storage_error
from server.tasks import task_of

logger = logging.getLogger("reelserve.jobs")

FULL = JobError("storage_failed", "the server could not store the file")
BUG = JobError("internal_error", "an error of the server ended the job")
MAX_ATTEMPTS = 2
"""How often a job may be begun: one that was running whenever a server or worker died may be the reason."""


class Runner:
    """Begins the job whose turn it is whenever a worker is idle. Used on the event loop."""

    def __init__(
        self,
        *,
        roster: Roster,
        ledger: Ledger,
        engine: Engine,
        max_pending_bytes: int,
        set_deadline: Callable[[LiveJob], None],
    ) -> None:
        """`set_deadline` is called whenever a job has begun."""
        self._roster = roster
        self._ledger = ledger
        self._engine = engine
        self._max_pending_bytes = max_pending_bytes
        self._set_deadline = set_deadline
        self._slots = asyncio.Semaphore(engine.slots)
        self._jobs = Background()
        self._handing_out = Background()

    def start(self) -> None:
        """Begin to hand out jobs."""
        self._handing_out.spawn(self._hand_out())

    async def stop_handing_out(self) -> None:
        """Begin no more jobs; those that run go on."""
        await self._handing_out.stop()

    async def stop(self) -> None:
        """Let go of the engine. Jobs that have not ended stay on the roster."""
        await self.stop_handing_out()
        await self._jobs.stop()

    async def fail(self, live: LiveJob, error: JobError, *, again: bool = False) -> None:
        """Write down that the job ended without a result, and let go of it; `again` as in `Ledger.fail`."""
        try:
            await self._ledger.fail(live, error, again=again)
        except Exception:
            self._roster.forget(live)
            raise
        self._roster.forget(live)  # not when the server stops: that sees to what was cut off here

    async def _hand_out(self) -> None:
        while True:
            await self._slots.acquire()
            await self._one_can_begin()
            self._jobs.spawn(self._run(self._roster.next()))
            self._roster.changes.fire()

    async def _one_can_begin(self) -> None:
        """Return when a job waits and a worker is idle: either may be gone when the other is there."""
        while True:
            await self._roster.queue.wait()
            await self._engine.wait_idle()
            if len(self._roster.queue) > 0:
                return

    async def _run(self, live: LiveJob) -> None:
        slot = Slot(self._slots)
        try:
            await live.stored.wait()
            if live.ended.is_set():  # the store did not take it
                return
            # It has one, unless there was no room for it when the server started.
            await asyncio.to_thread(self._ledger.artifacts.create, live.job.id)
            if live.cancelled is not None:
                await self.fail(live, live.cancelled)
                return
            if await self._follow(live, slot):
                await self._again(live)
        except Exception as error:  # a job must end, whatever went wrong with it
            logger.exception("job failed in the server", extra={"job_id": live.job.id})
            await self.fail(live, FULL if is_storage_error(error) else BUG)
        finally:
            slot.release()

    async def _follow(self, live: LiveJob, slot: Slot) -> bool:
        """Note what the engine says of the job until its last word; whether it is to be run again."""
        again = False
        task = task_of(live.job, self._ledger.artifacts, self._max_pending_bytes)
        async with aclosing(self._engine.run(task)) as events:
            async for event in events:
                if isinstance(event, DeviceFree):
                    slot.release()
                again = _deserves_another(live, event)
                if not again:
                    await self._note(live, event)
                self._roster.changes.fire()
        return again

    async def _note(self, live: LiveJob, event: JobEvent) -> None:
        match event:
            case Started():
                await self._ledger.begin(live, event)
                self._set_deadline(live)
            case Progress():
                live.progress.note(event)
            case Fragment(_, data):
                if not live.sent:
                    self._ledger.journal.streaming(live.job)
                live.send(data)
            case Failed() if live.cancelled is not None:
                await self.fail(live, live.cancelled)
            case Failed(_, code, message):
                await self.fail(live, JobError(code, message))
            case Finished():
                await self._ledger.complete(live, event)
                self._roster.forget(live)

    async def _again(self, live: LiveJob) -> None:
        """Run a job once more, before the others of its owner."""
        if live.job.status is JobStatus.IN_PROGRESS:
            await self._ledger.put_back(live, counts=True)
        else:
            self._ledger.journal.queued_again(live.job)
        if live.cancelled is not None:
            await self.fail(live, live.cancelled)
            return
        self._roster.queue.push(live.job.id, live.job.owner, first=True)
        self._roster.changes.fire()


def _deserves_another(live: LiveJob, event: JobEvent) -> bool:
    """Whether another job's crash ended this one, and nobody has seen anything of it yet."""
    victim = isinstance(event, Failed) and event.victim and live.cancelled is None
    return victim and live.job.attempts < MAX_ATTEMPTS and not live.sent
