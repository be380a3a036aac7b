"""From the queue to the engine and back: the life of every job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import aclosing
from typing import Any

from server.artifacts import JobFolders
from server.database import Beside, uninterrupted
from server.engine.base import (
    DeviceFree,
    Engine,
    Failed,
    Finished,
    Fragment,
    JobEvent,
    Progress,
    Started,
)
from server.errors import IllegalMove, NotFound, QueueFull
from server.jobs import Job, JobError, JobStatus, StoredFile
from server.live import LiveJob, Signal, Slot
from server.metrics import Metrics
from server.pace import Pace
from server.store import Store
from server.tasks import task_of

logger = logging.getLogger("reelserve.jobs")

CANCELLED = JobError("cancelled", "the job was cancelled")
QUEUE_RETRY_S = 10
"""What a client is told to wait when the queue is full."""


class Dispatcher:
    """Takes jobs, hands them to the engine in order, and writes down what becomes of them."""

    def __init__(
        self,
        *,
        store: Store,
        engine: Engine,
        artifacts: JobFolders,
        uploads: JobFolders,
        metrics: Metrics,
        max_jobs: int,
        max_pending_bytes: int,
    ) -> None:
        self._store = store
        self._engine = engine
        self._artifacts = artifacts
        self._uploads = uploads
        self._metrics = metrics
        self._max_jobs = max_jobs
        self._max_pending_bytes = max_pending_bytes
        self._live: dict[str, LiveJob] = {}
        self._waiting: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._slots = asyncio.Semaphore(engine.slots)
        self._tasks: set[asyncio.Task[None]] = set()
        self.changes = Signal()
        """Fired whenever a job here has changed, its place in the queue included."""
        self.pace = Pace()

    async def start(self) -> None:
        """Queue again what an earlier server left unfinished, and begin to hand out jobs."""
        unfinished = await self._store.unfinished()
        # Pictures are kept as long as their job, for a remix.
        await asyncio.to_thread(self._uploads.sweep, await self._store.ids())
        for job in unfinished:
            await self._resume(job)
        self._spawn(self._hand_out())

    async def stop(self) -> None:
        """Stop handing out jobs; what runs goes back to the queue, for the next server to take up."""
        running = [live.job for live in self._live.values() if live.job.id not in self._waiting]
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for job in running:
            await self._put_back(job)
        for live in self._live.values():
            live.end()

    def check_room(self) -> None:
        """Nothing, while one more job may wait.

        Raises:
            QueueFull: too many wait.
        """
        if self.depth >= self._max_jobs:
            raise QueueFull(f"{self.depth} jobs wait, and at most {self._max_jobs} may", QUEUE_RETRY_S)

    @uninterrupted
    async def submit(self, job: Job, beside: Beside | None = None) -> LiveJob:
        """Write the job down, and what belongs to it, and queue it.

        Raises:
            QueueFull: too many jobs wait.
        """
        self.check_room()
        live = self._live[job.id] = LiveJob(job)
        self._waiting.append(job.id)
        try:
            await asyncio.to_thread(self._artifacts.create, job.id)
            await self._store.add(job, beside)
        except BaseException:
            self._forget(live)
            raise
        finally:
            live.stored.set()
        self._metrics.created.inc()
        self._arrived.set()
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
        return self._waiting.index(job_id) if job_id in self._waiting else None

    @property
    def depth(self) -> int:
        """How many jobs wait."""
        return len(self._waiting)

    async def cancel(self, job_id: str, error: JobError = CANCELLED) -> Job:
        """Stop a job, which fails with `error`; returns when it has stopped.

        Raises:
            NotFound: there is none.
            IllegalMove: it had already ended.
        """
        live = self._live.get(job_id)
        if live is None:
            job = await self._store.get(job_id)
            raise IllegalMove(f"video {job_id} is {job.status} and cannot be cancelled any more")
        live.cancelled = live.cancelled or error
        if job_id in self._waiting:
            self._waiting.remove(job_id)
            await live.stored.wait()
            await self._fail(live, live.cancelled)
        else:
            await self._engine.cancel(job_id)
            await live.ended.wait()
        job = await self._store.get(job_id)
        if job.status is JobStatus.COMPLETED:  # it was faster
            raise IllegalMove(f"video {job_id} is completed and cannot be cancelled any more")
        return job

    async def abandon(self, job_id: str, error: JobError = CANCELLED) -> None:
        """Stop a job that nobody waits for any more, if it has not ended by itself."""
        with contextlib.suppress(IllegalMove, NotFound):
            await self.cancel(job_id, error)

    def abandon_soon(self, job_id: str) -> None:
        """`abandon` from where nothing can be awaited."""
        self._spawn(self.abandon(job_id))

    async def delete(self, job_id: str) -> None:
        """Stop a job if it runs, and forget it and its files.

        Raises:
            NotFound: there is none.
        """
        try:
            await self.cancel(job_id)
        except IllegalMove:
            logger.debug("job %s had ended before its deletion", job_id)
        await self._store.delete(job_id)
        await asyncio.to_thread(self._remove_files, job_id)

    async def _resume(self, job: Job) -> None:
        await asyncio.to_thread(self._artifacts.remove, job.id)
        await asyncio.to_thread(self._artifacts.create, job.id)
        live = self._live[job.id] = LiveJob(job)
        live.stored.set()
        if job.waits:
            await self._fail(live, JobError("server_restarted", "the server was restarted; nobody waits now"))
            return
        if job.status is JobStatus.IN_PROGRESS:
            live.job = await self._store.move(job.id, JobStatus.QUEUED, started_us=None)
        self._waiting.append(job.id)

    async def _put_back(self, job: Job) -> None:
        try:
            await self._store.move(job.id, JobStatus.QUEUED, started_us=None)
        except (IllegalMove, NotFound):
            logger.debug("job %s ended while the server stopped", job.id)

    async def _hand_out(self) -> None:
        while True:
            await self._slots.acquire()
            await self._engine.wait_idle()
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            self._spawn(self._run(self._live[self._waiting.popleft()]))
            self.changes.fire()

    async def _run(self, live: LiveJob) -> None:
        slot = Slot(self._slots)
        try:
            await live.stored.wait()
            if live.ended.is_set():  # the store did not take it
                return
            if live.cancelled is not None:
                await self._fail(live, live.cancelled)
                return
            async with aclosing(
                self._engine.run(task_of(live.job, self._artifacts, self._max_pending_bytes))
            ) as events:
                async for event in events:
                    if isinstance(event, DeviceFree):
                        slot.release()
                    await self._note(live, event)
                    self.changes.fire()
        except Exception:  # a job must end, whatever went wrong with it
            logger.exception("job %s failed in the server", live.job.id)
            await self._fail(live, JobError("internal_error", "an error of the server ended the job"))
        finally:
            slot.release()

    async def _note(self, live: LiveJob, event: JobEvent) -> None:
        match event:
            case Started():
                live.job = await self._store.move(live.job.id, JobStatus.IN_PROGRESS, started_us=_now_us())
            case Progress():
                live.progress.note(event)
            case Fragment(_, data):
                live.fragments.put_nowait(data)
            case Failed(_, "cancelled", _) if live.cancelled is not None:
                await self._fail(live, live.cancelled)
            case Failed(_, code, message):
                await self._fail(live, JobError(code, message))
            case Finished():
                await self._complete(live, event)

    async def _complete(self, live: LiveJob, event: Finished) -> None:
        completed = _now_us()
        assert live.job.started_us is not None
        timings = {
            **event.timings,
            "queue": (live.job.started_us - live.job.created_us) / 1e6,
            "total": (completed - live.job.created_us) / 1e6,
        }
        files = tuple(StoredFile(artifact.path.name, artifact.size_bytes) for artifact in event.artifacts)
        live.job = await self._store.move(
            live.job.id,
            JobStatus.COMPLETED,
            completed_us=completed,
            files=files,
            timings=timings,
            progress=100,
        )
        self._metrics.ended.labels("completed").inc()
        self._metrics.generation.observe(event.timings["generation"])
        self.pace.note(event.timings["generation"])
        self._forget(live)

    async def _fail(self, live: LiveJob, error: JobError) -> None:
        try:
            live.job = await self._store.move(
                live.job.id,
                JobStatus.FAILED,
                completed_us=_now_us(),
                error=error,
                progress=live.progress.percent,
            )
            await asyncio.to_thread(self._remove_files, live.job.id)
            self._metrics.ended.labels(error.code).inc()
            logger.info("job %s failed: %s", live.job.id, error.code)
        except (IllegalMove, NotFound):
            logger.exception("job %s had no state to fail from", live.job.id)
        finally:
            self._forget(live)

    def _forget(self, live: LiveJob) -> None:
        if live.job.id in self._waiting:
            self._waiting.remove(live.job.id)
        self._live.pop(live.job.id, None)
        live.end()
        self.changes.fire()

    def _remove_files(self, job_id: str) -> None:
        self._artifacts.remove(job_id)
        self._uploads.remove(job_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _now_us() -> int:
    return time.time_ns() // 1000
