"""What may be done to jobs (make, cancel, delete), and what becomes of them as the server comes and goes."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from sqlalchemy.exc import DBAPIError

from server.background import Background
from server.database import Beside, uninterrupted
from server.engine.base import Engine
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
from server.live import LiveJob
from server.pace import Pace
from server.roster import Roster
from server.runner import MAX_ATTEMPTS, Runner
from server.sections import QueueSettings
from server.storage import is_storage_error

logger = logging.getLogger("reelserve.jobs")

CANCELLED = JobError("cancelled", "the job was cancelled")
UNFINISHED = JobError("server_restarted", "the server ended while the job ran")
UNWANTED = JobError("server_restarted", "the server ended; whoever waited for the job is gone")
NO_WORKER = JobError("worker_crashed", "no worker is left that could run the job")
STOPPING_RETRY_S = 10
"""What a client is told to wait while the server stops: by then there may be another one."""


class Dispatcher:
    """The one place that decides on jobs. Used on the event loop."""

    def __init__(
        self, *, ledger: Ledger, engine: Engine, settings: QueueSettings, max_pending_bytes: int
    ) -> None:
        self._ledger = ledger
        self._engine = engine
        self._settings = settings
        self.roster = Roster()
        self.draining = False
        """No new job is taken or begun any more."""
        self._background = Background()
        self._runner = Runner(
            roster=self.roster,
            ledger=ledger,
            engine=engine,
            max_pending_bytes=max_pending_bytes,
            set_deadline=self._set_deadline,
        )
        engine.watch(lambda _reason: self._background.spawn(self._let_go()))

    async def start(self) -> None:
        """Queue again what an earlier server left unfinished, and begin to hand out jobs.

        It waits for no database that takes nothing: such jobs are queued when it does.
        """
        jobs = await self._ledger.unfinished()
        self._ledger.patient = False
        refused = [job for job in jobs if not await self._resumed(job)]
        self._ledger.patient = True
        for job in refused:
            self._background.spawn(self._resume(job))
        if not self.draining:  # stopped before it had started
            self._runner.start()

    async def drain(self, seconds: float) -> None:
        """Take and begin no more jobs; return when those that run have ended, or `seconds` are over."""
        self.draining = True
        await self._runner.stop_handing_out()
        running = len(self.roster.running())
        logger.info("draining", extra={"running": running, "queued": len(self.roster.queue)})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.roster.running():
                    await self.roster.changes.next().wait()

    async def stop(self) -> None:
        """Let go of all jobs: for the next server to take up, or failed where nobody will want them."""
        self.draining = True
        self._ledger.patient = False
        await self._runner.stop()
        await self._background.stop()
        # Side by side: a database that is out of reach may take its time to refuse each of them.
        await asyncio.gather(*(self._leave(live) for live in self.roster.lives().values()))

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
        waiting = len(self.roster.queue)
        if waiting >= settings.max_jobs:
            raise QueueFull(f"{waiting} jobs wait, and at most {settings.max_jobs} may", wait)
        if owner and settings.max_jobs_per_key is not None:
            unfinished = self.roster.unfinished_of(owner)
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
        live = self.roster.add(job)
        self.roster.queue.push(job.id, job.owner)
        try:
            await self._ledger.create(job, beside)
        except BaseException:
            self.roster.forget(live)
            raise
        finally:
            live.stored.set()
        self.roster.changes.fire()
        return live

    async def cancel(self, job_id: str, error: JobError = CANCELLED) -> Job:
        """Stop a job, which fails with `error`; returns when it has stopped.

        Raises:
            NotFound: there is none.
            IllegalMove: it had already ended.
            NotReady: the server is stopping, and has left it to the next one.
            StorageUnavailable: its end cannot be written now; it will be as soon as that works.
        """
        live = self.roster.live(job_id)
        if live is None:
            job = await self._ledger.store.get(job_id)
            if not job.status.final:  # let go of already, for the next server
                raise NotReady("the server is stopping", STOPPING_RETRY_S)
            raise IllegalMove(f"video {job_id} is {job.status} and cannot be cancelled any more")
        live.cancelled = live.cancelled or error
        if self.roster.queue.remove(job_id):
            await live.stored.wait()
            # A stop may be about to do the same.
            self._background.spawn(self._runner.fail(live, live.cancelled, again=True))
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
        with contextlib.suppress(IllegalMove, NotFound, NotReady):
            await self.cancel(job_id, error)

    def abandon_soon(self, job_id: str, error: JobError = CANCELLED) -> None:
        """`abandon` from where nothing can be awaited."""

        async def abandon() -> None:
            with contextlib.suppress(StorageUnavailable):
                await self.abandon(job_id, error)

        self._background.spawn(abandon())

    async def delete(self, job_id: str) -> None:
        """Stop a job if it runs, and forget it and its files.

        Raises:
            NotFound: there is none.
            StorageUnavailable: as `cancel` does.
        """
        try:
            await self.cancel(job_id)
        except (IllegalMove, NotReady):
            logger.debug("job does not run at its deletion", extra={"job_id": job_id})
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
        live = self.roster.add(job)
        live.stored.set()
        if job.waits:
            await self._runner.fail(live, UNWANTED)
            return
        if job.status is JobStatus.IN_PROGRESS:
            if self._settings.on_restart == "fail" or job.attempts >= MAX_ATTEMPTS:
                await self._runner.fail(live, UNFINISHED)
                return
            await self._ledger.put_back(live, counts=True)
        self.roster.queue.push(job.id, job.owner)
        self.roster.changes.fire()

    async def _let_go(self) -> None:
        """Once no worker is left for good, nobody is kept waiting; other jobs are for the next server."""
        await self._engine.wait_ready()
        if self._engine.failure is None:
            return
        for live in self.roster.lives().values():
            if live.job.waits:
                self.abandon_soon(live.job.id, NO_WORKER)

    async def _leave(self, live: LiveJob) -> None:
        """What becomes of a job when the server stops."""
        await live.stored.wait()
        waiting = self.roster.queue.remove(live.job.id)
        try:
            if live.cancelled is not None:
                await self._runner.fail(live, live.cancelled, again=True)
            elif live.job.waits:
                await self._runner.fail(live, UNWANTED, again=True)
            elif live.job.status is JobStatus.IN_PROGRESS and self._settings.on_restart == "fail":
                await self._runner.fail(live, UNFINISHED, again=True)
            elif not waiting:
                await self._ledger.put_back(live, counts=False)
        except (IllegalMove, NotFound, StoreUnavailable):
            pass  # it was not begun yet, or had just ended; or its row stays as it is, for the next start
        except (OSError, DBAPIError) as error:  # the next server finds it as it was, and does the same
            if not is_storage_error(error):
                raise
            logger.error("a job could not be put back", extra={"job_id": live.job.id})
        finally:
            self.roster.forget(live)

    def _set_deadline(self, live: LiveJob) -> None:
        seconds = self._settings.job_timeout_s
        error = JobError("timeout", f"not finished within {seconds:g} s of its start")
        live.expire_after(seconds, lambda: self.abandon_soon(live.job.id, error))
