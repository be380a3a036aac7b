"""From the queue to the engine and back: which job runs when, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from sqlalchemy.exc import DBAPIError

from server.database import Beside, uninterrupted
from server.engine.base import DeviceFree, Engine, Failed, Finished, Fragment, JobEvent, Progress, Started
from server.errors import (
    IllegalMove,
    KeyBusy,
    NotFound,
    NotReady,
    QueueFull,
    StorageUnavailable,
    StoreUnavailable,
)
from server.jobs import Job, JobError, JobStatus
from server.ledger import Ledger
from server.live import LiveJob, Signal, Slot
from server.pace import Pace
from server.queue import JobQueue
from server.settings import QueueSettings
from server.storage import is_storage_error
from server.tasks import task_of

logger = logging.getLogger("reelserve.jobs")

CANCELLED = JobError("cancelled", "the job was cancelled")
UNFINISHED = JobError("server_restarted", "the server ended while the job ran")
UNWANTED = JobError("server_restarted", "the server ended; whoever waited for the job is gone")
FULL = JobError("storage_failed", "the server could not store the file")
BUG = JobError("internal_error", "an error of the server ended the job")
MAX_ATTEMPTS = 2
"""How often a job may be begun: one that was running whenever a server or worker died may be the reason."""
STOPPING_RETRY_S = 10
"""What a client is told to wait while the server stops: by then there may be another one."""


class Dispatcher:
    """Takes jobs, and hands them to the engine in turn. Used on the event loop."""

    def __init__(
        self, *, ledger: Ledger, engine: Engine, settings: QueueSettings, max_pending_bytes: int
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._settings = settings
        self._max_pending_bytes = max_pending_bytes
        self._live: dict[str, LiveJob] = {}
        self._queue = JobQueue()
        self._slots = asyncio.Semaphore(engine.slots)
        self._tasks: set[asyncio.Task[None]] = set()
        self._handing_out: asyncio.Task[None] | None = None
        self.draining = False
        """No new job is taken or begun any more."""
        self.changes = Signal()
        """Fired whenever a job here has changed, its place in the queue included."""

    async def start(self) -> None:
        """Queue again what an earlier server left unfinished, and begin to hand out jobs.

        It waits for no database that takes nothing: such jobs are queued when it does.
        """
        jobs = await self._ledger.unfinished()
        self._ledger.patient = False
        refused = [job for job in jobs if not await self._resumed(job)]
        self._ledger.patient = True
        for job in refused:
            self._spawn(self._resume(job))
        if not self.draining:  # stopped before it had started
            self._handing_out = asyncio.create_task(self._hand_out())

    async def drain(self, seconds: float) -> None:
        """Take and begin no more jobs; return when those that run have ended, or `seconds` are over."""
        self.draining = True
        await self._stop_handing_out()
        running = [live.ended.wait() for live in self._live.values() if live.job.id not in self._queue]
        logger.info("draining", extra={"running": len(running), "queued": len(self._queue)})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*running)

    async def stop(self) -> None:
        """Let go of all jobs: for the next server to take up, or failed where nobody will want them."""
        self.draining = True
        self._ledger.patient = False
        await self._stop_handing_out()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for live in list(self._live.values()):
            await self._leave(live)

    @property
    def pace(self) -> Pace:
        """How fast jobs are done here."""
        return self._ledger.pace

    def check_room(self, owner: str) -> None:
        """Nothing, while one more job of this owner may wait.

        Raises:
            QueueFull, KeyBusy: too many wait, or too many of this owner are not finished.
            NotReady: the server is stopping.
        """
        if self.draining:
            raise NotReady("the server is stopping", STOPPING_RETRY_S)
        settings, wait = self._settings, self.pace.until_next_s
        if self.depth >= settings.max_jobs:
            raise QueueFull(f"{self.depth} jobs wait, and at most {settings.max_jobs} may", wait)
        if owner and settings.max_jobs_per_key is not None:
            unfinished = sum(live.job.owner == owner for live in self._live.values())
            if unfinished >= settings.max_jobs_per_key:
                problem = f"{unfinished} jobs of this API key are not finished"
                raise KeyBusy(f"{problem}, and at most {settings.max_jobs_per_key} may be", wait)

    @uninterrupted
    async def submit(self, job: Job, beside: Beside | None = None) -> LiveJob:
        """Write the job down, and what belongs to it, and queue it.

        Raises:
            QueueFull, KeyBusy, NotReady: as `check_room` does.
        """
        self.check_room(job.owner)
        live = self._live[job.id] = LiveJob(job)
        self._queue.push(job.id, job.owner)
        try:
            await self._ledger.create(job, beside)
        except BaseException:
            self._forget(live)
            raise
        finally:
            live.stored.set()
        self.changes.fire()
        return live

    def live(self, job_id: str) -> LiveJob | None:
        """The job, if it is queued or running."""
        return self._live.get(job_id)

    def lives(self) -> dict[str, LiveJob]:
        """All jobs that are queued or running now, by id."""
        return dict(self._live)

    def position(self, job_id: str) -> int | None:
        """How many jobs are before it; None unless it waits."""
        return self._queue.position(job_id)

    @property
    def depth(self) -> int:
        """How many jobs wait."""
        return len(self._queue)

    @property
    def running(self) -> int:
        """How many jobs have been handed out and are not finished."""
        return len(self._live) - len(self._queue)

    async def cancel(self, job_id: str, error: JobError = CANCELLED) -> Job:
        """Stop a job, which fails with `error`; returns when it has stopped.

        Raises:
            NotFound: there is none.
            IllegalMove: it had already ended.
            StorageUnavailable: its end cannot be written now; it will be as soon as that works.
        """
        live = self._live.get(job_id)
        if live is None:
            job = await self._ledger.store.get(job_id)
            raise IllegalMove(f"video {job_id} is {job.status} and cannot be cancelled any more")
        live.cancelled = live.cancelled or error
        if self._queue.remove(job_id):
            await live.stored.wait()
            self._spawn(self._fail(live, live.cancelled))
        else:
            await self._engine.cancel(job_id)
        await self._ended(live)
        job = await self._ledger.store.get(job_id)
        if job.status is JobStatus.COMPLETED:  # it was faster
            raise IllegalMove(f"video {job_id} is completed and cannot be cancelled any more")
        return job

    async def abandon(self, job_id: str, error: JobError = CANCELLED) -> None:
        """Stop a job that nobody waits for any more, if it has not ended by itself.

        Raises:
            StorageUnavailable: as `cancel` does.
        """
        with contextlib.suppress(IllegalMove, NotFound):
            await self.cancel(job_id, error)

    def abandon_soon(self, job_id: str, error: JobError = CANCELLED) -> None:
        """`abandon` from where nothing can be awaited."""

        async def abandon() -> None:
            with contextlib.suppress(StorageUnavailable):
                await self.abandon(job_id, error)

        self._spawn(abandon())

    async def delete(self, job_id: str) -> None:
        """Stop a job if it runs, and forget it and its files.

        Raises:
            NotFound: there is none.
            StorageUnavailable: as `cancel` does.
        """
        try:
            await self.cancel(job_id)
        except IllegalMove:
            logger.debug("job had ended before its deletion", extra={"job_id": job_id})
        await self._ledger.delete(job_id)

    async def _ended(self, live: LiveJob) -> None:
        """Return when the job has ended, or raise while that cannot be written."""
        waiting = [asyncio.create_task(event.wait()) for event in (live.ended, live.refused)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waiting:
                task.cancel()
        if not live.ended.is_set():
            raise StorageUnavailable

    async def _resumed(self, job: Job) -> bool:
        try:
            await self._resume(job)
        except (StoreUnavailable, OSError, DBAPIError) as error:
            if not isinstance(error, StoreUnavailable) and not is_storage_error(error):
                raise
            logger.error("an unfinished job cannot be queued so far", extra={"job_id": job.id})
            return False
        return True

    async def _resume(self, job: Job) -> None:
        live = self._live[job.id] = LiveJob(job)
        live.stored.set()
        if job.waits:
            await self._fail(live, UNWANTED)
            return
        if job.status is JobStatus.IN_PROGRESS:
            if self._settings.on_restart == "fail" or job.attempts >= MAX_ATTEMPTS:
                await self._fail(live, UNFINISHED)
                return
            await self._ledger.put_back(live, counts=True)
        self._queue.push(job.id, job.owner)

    async def _leave(self, live: LiveJob) -> None:
        """What becomes of a job when the server stops."""
        await live.stored.wait()
        waiting = self._queue.remove(live.job.id)
        try:
            if live.job.waits:
                await self._fail(live, UNWANTED)
            elif not waiting and self._settings.on_restart == "fail":
                await self._fail(live, UNFINISHED)
            elif not waiting:
                await self._ledger.put_back(live, counts=False)
        except (IllegalMove, NotFound, StoreUnavailable):
            pass  # it was not begun yet, or had just ended; or its row stays as it is, for the next start
        except (OSError, DBAPIError) as error:  # the next server finds it as it was, and does the same
            if not is_storage_error(error):
                raise
            logger.error("a job could not be put back", extra={"job_id": live.job.id})
        finally:
            self._forget(live)

    async def _hand_out(self) -> None:
        while True:
            await self._slots.acquire()
            await self._engine.wait_idle()
            await self._queue.wait()
            self._spawn(self._run(self._live[self._queue.pop()]))
            self.changes.fire()

    async def _stop_handing_out(self) -> None:
        if self._handing_out is not None:
            self._handing_out.cancel()
            await asyncio.gather(self._handing_out, return_exceptions=True)
            self._handing_out = None

    async def _run(self, live: LiveJob) -> None:
        slot = Slot(self._slots)
        try:
            await live.stored.wait()
            if live.ended.is_set():  # the store did not take it
                return
            if live.cancelled is not None:
                await self._fail(live, live.cancelled)
                return
            if await self._follow(live, slot):
                await self._again(live)
        except Exception as error:  # a job must end, whatever went wrong with it
            logger.exception("job failed in the server", extra={"job_id": live.job.id})
            await self._fail(live, FULL if is_storage_error(error) else BUG)
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
                again = self._deserves_another(live, event)
                if not again:
                    await self._note(live, event)
                self.changes.fire()
        return again

    def _deserves_another(self, live: LiveJob, event: JobEvent) -> bool:
        """Whether another job's crash ended this one, and nobody has seen anything of it yet."""
        victim = isinstance(event, Failed) and event.victim and live.cancelled is None
        return victim and live.job.attempts < MAX_ATTEMPTS and not live.sent

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
                await self._fail(live, live.cancelled)
            case Failed(_, code, message):
                await self._fail(live, JobError(code, message))
            case Finished():
                await self._ledger.complete(live, event)
                self._forget(live)

    async def _again(self, live: LiveJob) -> None:
        """Run a job once more, before the others of its owner."""
        if live.job.status is JobStatus.IN_PROGRESS:
            await self._ledger.put_back(live, counts=True)
        else:
            self._ledger.journal.queued_again(live.job)
        if live.cancelled is not None:
            await self._fail(live, live.cancelled)
            return
        self._queue.push(live.job.id, live.job.owner, first=True)

    def _set_deadline(self, live: LiveJob) -> None:
        seconds = self._settings.job_timeout_s
        error = JobError("timeout", f"not finished within {seconds:g} s of its start")
        live.expire_after(seconds, lambda: self.abandon_soon(live.job.id, error))

    async def _fail(self, live: LiveJob, error: JobError) -> None:
        try:
            await self._ledger.fail(live, error)
        finally:
            self._forget(live)

    def _forget(self, live: LiveJob) -> None:
        self._queue.remove(live.job.id)
        self._live.pop(live.job.id, None)
        live.end()
        self.changes.fire()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
