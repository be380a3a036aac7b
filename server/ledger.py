"""Writes down what becomes of jobs: in the database, on the disk and in the metrics."""

from __future__ import annotations

import asyncio
import logging
import time

from server.artifacts import JobFolders
from server.database import Beside, uninterrupted
from server.engine.base import Finished, Started
from server.errors import IllegalMove, NotFound, StoreUnavailable
from server.jobs import Job, JobError, JobStatus, StoredFile
from server.journal import Journal
from server.live import LiveJob
from server.metrics import Metrics
from server.pace import Pace
from server.store import Store

logger = logging.getLogger("reelserve.jobs")


class Ledger:
    """Every move of a job, with its files. Who decides on the moves is `server.dispatcher`."""

    def __init__(
        self, *, store: Store, artifacts: JobFolders, uploads: JobFolders, metrics: Metrics, slots: int
    ) -> None:
        self.store = store
        self.artifacts = artifacts
        self.pace = Pace(slots)
        self._uploads = uploads
        self.journal = Journal(metrics)

    async def unfinished(self) -> list[Job]:
        """What an earlier server left, in the order of creation, each with an empty folder."""
        jobs = await self.store.unfinished()
        # Pictures are kept as long as their job, for a remix.
        await asyncio.to_thread(self._uploads.sweep, await self.store.ids())
        for job in jobs:
            await asyncio.to_thread(self._empty_folder, job.id)
        return jobs

    @uninterrupted
    async def create(self, job: Job, beside: Beside | None) -> None:
        """Write a new job down, and what belongs to it, or nothing."""
        await asyncio.to_thread(self.artifacts.create, job.id)
        await self.store.add(job, beside)
        self.journal.queued(job)

    async def begin(self, live: LiveJob, event: Started) -> None:
        """A worker has begun the job."""
        live.job = await self.store.move(
            live.job.id, JobStatus.IN_PROGRESS, started_us=_now_us(), attempts=live.job.attempts + 1
        )
        self.journal.started(live.job, event.idle_s)

    async def put_back(self, live: LiveJob, *, counts: bool) -> None:
        """Queue a running job again. Unless it `counts`, it is as if it had not been begun."""
        attempts = live.job.attempts if counts else max(live.job.attempts - 1, 0)
        live.job = await self.store.move(live.job.id, JobStatus.QUEUED, started_us=None, attempts=attempts)
        await asyncio.to_thread(self._empty_folder, live.job.id)
        live.restart()
        self.journal.queued_again(live.job)

    async def complete(self, live: LiveJob, event: Finished) -> None:
        """Its files are whole."""
        completed = _now_us()
        assert live.job.started_us is not None
        timings = {
            **event.timings,
            "queue": (live.job.started_us - live.job.created_us) / 1e6,
            "total": (completed - live.job.created_us) / 1e6,
        }
        files = tuple(StoredFile(artifact.path.name, artifact.size_bytes) for artifact in event.artifacts)
        live.job = await self.store.move(
            live.job.id,
            JobStatus.COMPLETED,
            completed_us=completed,
            files=files,
            timings=timings,
            progress=100,
        )
        self.journal.completed(live.job)
        self.pace.note(event.timings["generation"])

    async def fail(self, live: LiveJob, error: JobError) -> None:
        """It ended without a result; nothing of it stays but its record."""
        try:
            live.job = await self.store.move(
                live.job.id,
                JobStatus.FAILED,
                completed_us=_now_us(),
                error=error,
                progress=live.progress.percent,
            )
            await asyncio.to_thread(self.remove_files, live.job.id)
            self.journal.failed(live.job)
        except (IllegalMove, NotFound):
            logger.exception("job had no state to fail from", extra={"job_id": live.job.id})
        except StoreUnavailable:  # the next start takes it up where its row stands
            logger.exception("job's end could not be written down", extra={"job_id": live.job.id})

    async def delete(self, job_id: str) -> None:
        """Forget a job and its files.

        Raises:
            NotFound: there is none.
        """
        await self.store.delete(job_id)
        await asyncio.to_thread(self.remove_files, job_id)
        self.journal.deleted(job_id)

    def remove_files(self, job_id: str) -> None:
        """Delete what the disk holds of a job."""
        self.artifacts.remove(job_id)
        self._uploads.remove(job_id)

    def _empty_folder(self, job_id: str) -> None:
        self.artifacts.remove(job_id)
        self.artifacts.create(job_id)


def _now_us() -> int:
    return time.time_ns() // 1000
