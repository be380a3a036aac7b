"""Writes down what becomes of jobs: in the database, on the disk and in the metrics."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from collections.abc import Coroutine
from itertools import count
from typing import Any

from sqlalchemy.exc import DBAPIError

from server.artifacts import JobFolders
from server.database import Beside, uninterrupted
from server.engine.base import Finished, Started
from server.errors import IllegalMove, NotFound
from server.jobs import Job, JobError, JobStatus, StoredFile
from server.journal import Journal
from server.live import LiveJob
from server.metrics import Metrics
from server.pace import Pace
from server.persist import persistently
from server.retention import Limits
from server.storage import is_storage_error
from server.store import Store

logger = logging.getLogger("reelserve.jobs")


class Ledger:
    """Every move of a job, with its files. Who decides on the moves is `server.dispatcher`."""

    def __init__(
        self,
        *,
        store: Store,
        artifacts: JobFolders,
        uploads: JobFolders,
        limits: Limits,
        min_free_bytes: int,
        metrics: Metrics,
        slots: int,
    ) -> None:
        self.store = store
        self.patient = True
        """Whether moves that the storage refuses are tried again until they are written."""
        self.artifacts = artifacts
        self.pace = Pace(slots)
        self._uploads = uploads
        self.journal = Journal(metrics)
        self._limits = limits
        self._min_free_bytes = min_free_bytes

    async def unfinished(self) -> list[Job]:
        """What an earlier server left, in the order of creation, each with an empty folder."""
        jobs = await self.store.unfinished()
        for job in jobs:
            await asyncio.to_thread(self._empty_folder, job.id)
        return jobs

    @uninterrupted
    async def create(self, job: Job, beside: Beside | None) -> None:
        """Write a new job down, and what belongs to it, or nothing.

        Raises:
            OSError: the disk or the database has no room for it.
        """
        try:
            await asyncio.to_thread(self._make_folder, job.id)
            await self.store.add(job, beside)
        except BaseException:
            await asyncio.to_thread(self.artifacts.remove, job.id)
            raise
        self.journal.queued(job)

    async def begin(self, live: LiveJob, event: Started) -> None:
        """A worker has begun the job."""
        live.job = await self._move(
            live, JobStatus.IN_PROGRESS, started_us=_now_us(), attempts=live.job.attempts + 1
        )
        self.journal.started(live.job, event.idle_s)

    async def put_back(self, live: LiveJob, *, counts: bool) -> None:
        """Queue a running job again. Unless it `counts`, it is as if it had not been begun."""
        attempts = live.job.attempts if counts else max(live.job.attempts - 1, 0)
        progress = live.progress.percent  # for clients it never falls
        live.job = await self._move(
            live, JobStatus.QUEUED, started_us=None, attempts=attempts, progress=progress
        )
        await asyncio.to_thread(self._empty_folder, live.job.id)
        live.restart()
        self.journal.queued_again(live.job)

    async def complete(self, live: LiveJob, event: Finished) -> None:
        """Its files are whole."""
        completed = _now_us()
        assert live.job.started_us is not None
        timings = {
            **event.timings,
            # The clock may have been set back meanwhile.
            "queue": max(live.job.started_us - live.job.created_us, 0) / 1e6,
            "total": max(completed - live.job.created_us, 0) / 1e6,
        }
        files = tuple(StoredFile(artifact.path.name, artifact.size_bytes) for artifact in event.artifacts)
        live.job = await self._move(
            live,
            JobStatus.COMPLETED,
            completed_us=completed,
            expires_us=self._limits.expires_us(completed),
            files=files,
            timings=timings,
            progress=100,
        )
        self.journal.completed(live.job)
        self.pace.note(event.timings["generation"])

    async def fail(self, live: LiveJob, error: JobError, *, again: bool = False) -> None:
        """It ended without a result; nothing of it stays but its record.

        `again`: what wrote down an end of it may have been cut off half-way; then that one counts.

        Raises:
            StoreUnavailable, OSError, DBAPIError: it cannot be written, and the ledger is not `patient`.
        """
        try:
            live.job = await self._move(
                live,
                JobStatus.FAILED,
                again=again,
                completed_us=_now_us(),
                error=error,
                progress=live.progress.percent,
            )
            await asyncio.to_thread(self.remove_files, live.job.id)
            self.journal.failed(live.job)
        except (IllegalMove, NotFound):
            if not again:
                logger.exception("job had no state to fail from", extra={"job_id": live.job.id})

    async def delete(self, job_id: str) -> None:
        """Forget a job and its files.

        Raises:
            NotFound: there is none.
        """
        try:
            await self.store.delete(job_id)
        except (OSError, DBAPIError) as error:
            if not is_storage_error(error):
                raise
            # It is there, and what is to be deleted may be what fills the disk.
            await asyncio.to_thread(self.remove_files, job_id)
            await self.store.delete(job_id)
        await asyncio.to_thread(self.remove_files, job_id)
        self.journal.deleted(job_id)

    def remove_files(self, job_id: str) -> None:
        """Delete what the disk holds of a job."""
        self.artifacts.remove(job_id)
        self._uploads.remove(job_id)

    async def _move(self, live: LiveJob, status: JobStatus, *, again: bool = False, **changes: Any) -> Job:
        """As the store does it, and while the database takes nothing, again and again: a job that has ended
        is not lost, and its files stand meanwhile.
        """
        attempts = count(int(again))

        def move() -> Coroutine[Any, Any, Job]:
            return self.store.move(live.job.id, status, again=next(attempts) > 0, **changes)

        return await (persistently(move, live) if self.patient else move())

    def _make_folder(self, job_id: str) -> None:
        if self.artifacts.free_bytes < self._min_free_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.artifacts.create(job_id)

    def _empty_folder(self, job_id: str) -> None:
        self.artifacts.remove(job_id)
        try:
            self.artifacts.create(job_id)
        except OSError as error:  # tried again when the job begins, which no other job is to suffer for
            told = {"job_id": job_id, "error": type(error).__name__}
            logger.error("the folder of a job cannot be made", extra=told)


def _now_us() -> int:
    return time.time_ns() // 1000
