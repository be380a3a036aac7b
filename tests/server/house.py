"""A keeper of files and records over a real store and real folders, by a clock that a test turns."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from server.artifacts import JobFolders
from server.database import Database
from server.errors import NotFound
from server.idempotency import IdempotencyKeys
from server.jobs import Job, JobError, JobStatus
from server.metrics import Metrics
from server.retention import EndedJobs, Keeper, Limits
from server.store import Store
from tests.databases import url_for
from tests.server.scripted import new_job

NONE = Limits(files_s=None, files_bytes=None, records_s=None)
S = 1_000_000
START = 1_800_000_000 * S
"""Microseconds."""


class House:
    """A keeper over a real store and real folders. `now` is microseconds since 1970."""

    def __init__(self, folder: Path, database: Database, limits: Limits) -> None:
        self.now = START
        self.limits = limits
        self.ended = EndedJobs()
        self.store = Store(database, endings=(self.ended,))
        self.keys = IdempotencyKeys(database, now=lambda: self.now * 1000)
        self.artifacts, self.uploads = JobFolders(folder / "artifacts"), JobFolders(folder / "uploads")
        self.metrics = Metrics()
        self.artifacts.open()
        self.uploads.open()
        self.keeper = Keeper(
            limits=limits,
            ended=self.ended,
            store=self.store,
            keys=self.keys,
            artifacts=self.artifacts,
            uploads=self.uploads,
            metrics=self.metrics,
            now=lambda: self.now * 1000,
        )

    async def begin(self, *, upload: int = 0) -> Job:
        """A running job with its folder, and perhaps with an upload."""
        job = replace(new_job(), created_us=self.now)
        self.artifacts.create(job.id)
        if upload:
            (self.uploads.create(job.id) / "input_reference.png").write_bytes(bytes(upload))
        await self.store.add(job)
        return await self.store.move(job.id, JobStatus.IN_PROGRESS, started_us=self.now)

    async def complete(self, size: int = 10, *, upload: int = 0) -> Job:
        """A job that is completed now, with a file of `size` bytes."""
        job = await self.begin(upload=upload)
        self.artifacts.file(job.id, "video.mp4").write_bytes(bytes(size))
        expires = self.limits.expires_us(self.now)
        return await self.store.move(
            job.id, JobStatus.COMPLETED, completed_us=self.now, expires_us=expires, progress=100
        )

    async def fail(self) -> Job:
        """A job that fails now."""
        job = await self.begin()
        self.artifacts.remove(job.id)
        return await self.store.move(
            job.id, JobStatus.FAILED, completed_us=self.now, error=JobError("internal_error", "")
        )

    def has(self, job: Job) -> tuple[bool, bool]:
        """Whether the job's file is there, and its upload."""
        file = self.artifacts.file(job.id, "video.mp4")
        return file.exists(), self.uploads.file(job.id, "input_reference.png").exists()

    async def known(self, job: Job) -> bool:
        """Whether the store knows the job."""
        try:
            await self.store.get(job.id)
        except NotFound:
            return False
        return True

    def removed(self, reason: str) -> float:
        """The counter of removals."""
        return (
            self.metrics.registry.get_sample_value("reelserve_files_removed_total", {"reason": reason}) or 0
        )


@asynccontextmanager
async def house(folder: Path, **limits: Any) -> AsyncIterator[House]:
    """One run of a server; another one on the same folder is a restart."""
    database = Database(url_for(folder))
    await database.open()
    try:
        yield House(folder, database, replace(NONE, **limits))
    finally:
        await database.close()
