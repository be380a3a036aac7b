"""How long files and records are kept: by age, by size, and never a file that no record knows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from server.artifacts import JobFolders
from server.idempotency import IdempotencyKeys
from server.jobs import Job, JobStatus
from server.live import Signal
from server.metrics import Metrics
from server.settings import Settings
from server.store import Lifetime, Store

LOOK_AGAIN_S = 300.0
"""The longest pause: the clock may have been changed meanwhile."""
TROUBLE_PAUSE_S = 30.0
"""After an error, such as a disk that is too full for the database."""
PRUNE_S = 3600.0
"""Between two looks at the idempotency keys, which no answer depends on."""
RECORDS_AT_ONCE = 100

logger = logging.getLogger("reelserve.files")


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept; None is no bound. Seconds count from the end of a job."""

    files_s: float | None
    files_bytes: int | None
    records_s: float | None

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """As the operator set them."""
        return cls(settings.artifacts.ttl_s, settings.artifacts.max_bytes, settings.store.ttl_s)

    def expires_us(self, completed_us: int) -> int | None:
        """When the files of a job go that was completed then: a whole second, so that it can be told."""
        if self.files_s is None:
            return None
        return -(-(completed_us + round(self.files_s * 1e6)) // 1_000_000) * 1_000_000


class EndedJobs:
    """Notes the jobs that are completed, as a `server.database.Ending`."""

    def __init__(self) -> None:
        self.noted: dict[str, Lifetime] = {}
        """Those that nobody has taken up so far."""
        self.changed = Signal()
        """Fired when any job has ended."""

    async def write(self, connection: AsyncConnection, job: Job) -> None:
        """Note it. Its row is all that has to be written."""
        if job.status is JobStatus.COMPLETED:
            self.noted[job.id] = Lifetime(job.id, job.status, job.completed_us, job.expires_us)

    def written(self) -> None:
        self.changed.fire()


class Keeper:
    """Removes what is kept no longer, as soon as that is so.

    The record comes first: that it says "expired" is what hides a file, and only then is the file deleted.
    A download that runs has the file open, and gets all of it. `now` gives nanoseconds since 1970.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        ended: EndedJobs,
        store: Store,
        keys: IdempotencyKeys,
        artifacts: JobFolders,
        uploads: JobFolders,
        metrics: Metrics,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self._limits = limits
        self._ended = ended
        self._store = store
        self._keys = keys
        self._artifacts = artifacts
        self._uploads = uploads
        self._metrics = metrics
        self._now = now
        self._kept: dict[str, Lifetime] = {}
        """Completed jobs that have something on the disk."""
        self._pruned: float | None = None
        self._one_round = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    @property
    def holding(self) -> int:
        """Of how many jobs it keeps something on the disk, and so their names in memory."""
        return len(self._kept)

    async def sweep(self) -> None:
        """Remove what a killed server left behind, and what is overdue. Nothing may be running yet."""
        ids = {*await asyncio.to_thread(self._artifacts.ids), *await asyncio.to_thread(self._uploads.ids)}
        lives = await self._store.lifetimes(sorted(ids))
        now = self._now() // 1000
        of_files = {life.id for life in lives if life.keeps_files(now)}
        of_uploads = {life.id for life in lives if life.status is not JobStatus.FAILED}
        swept = await asyncio.to_thread(self._artifacts.sweep, of_files)
        swept += await asyncio.to_thread(self._uploads.sweep, of_uploads)
        if swept:
            self._metrics.removed.labels("start").inc(swept)
            logger.warning("removed folders that no job has or keeps any more", extra={"count": swept})
        self._kept = {life.id: life for life in lives if life.status is JobStatus.COMPLETED}

    async def start(self) -> None:
        """Begin to keep the limits."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop; the next server goes on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            changed = self._ended.changed.next()
            try:
                pause = await self.round()
            except Exception:
                logger.exception("a round of removals failed", extra={"seconds": TROUBLE_PAUSE_S})
                pause = TROUBLE_PAUSE_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await changed.wait()

    async def round(self) -> float:
        """Remove all that is kept no longer now; returns the seconds until there may be more."""
        async with self._one_round:
            now = self._now() // 1000
            await self._take_up()
            await self._expire(now)  # first: it needs no room for the database
            await self._evict(now)
            await self._forget(now)
            await self._prune()
            self._kept = {life.id: life for life in self._kept.values() if self._holds(life)}
            return await self._pause_s(now)

    async def _take_up(self) -> None:
        for job_id in tuple(self._ended.noted):
            try:
                await asyncio.to_thread(self._artifacts.settle, job_id)
                await asyncio.to_thread(self._uploads.measure, job_id)
            except OSError as error:
                told = {"job_id": job_id, "error": type(error).__name__}
                logger.error("files cannot be counted", extra=told)
            else:
                self._kept[job_id] = self._ended.noted.pop(job_id)

    async def _expire(self, now: int) -> None:
        for life in tuple(self._kept.values()):
            if not life.keeps_files(now) and self._artifacts.holds(life.id):
                size = self._artifacts.bytes_of(life.id)
                await asyncio.to_thread(self._artifacts.remove, life.id)
                self._removed(life.id, "age", size)

    async def _evict(self, now: int) -> None:
        """Remove the files and uploads of those that were completed first, but never of the last one."""
        if self._limits.files_bytes is None:
            return
        excess = self._artifacts.held_bytes + self._uploads.held_bytes - self._limits.files_bytes
        held = [life for life in self._kept.values() if self._holds(life)]
        for life in sorted(held, key=lambda life: life.completed_us or 0)[:-1]:
            if excess <= 0:
                return
            size = self._artifacts.bytes_of(life.id) + self._uploads.bytes_of(life.id)
            excess -= size
            await self._store.expire(life.id, now)
            await self._remove([life.id])
            self._removed(life.id, "size", size)

    async def _forget(self, now: int) -> None:
        if self._limits.records_s is None:
            return
        ended_us = now - round(self._limits.records_s * 1e6)
        while forgotten := await self._store.forget(ended_us, now, RECORDS_AT_ONCE):
            await self._remove(forgotten)
            self._metrics.forgotten.inc(len(forgotten))

    async def _prune(self) -> None:
        if self._pruned is None or time.monotonic() - self._pruned >= PRUNE_S:
            await self._keys.prune()
            self._pruned = time.monotonic()

    async def _remove(self, job_ids: Sequence[str]) -> None:
        for job_id in job_ids:
            await asyncio.to_thread(self._artifacts.remove, job_id)
            await asyncio.to_thread(self._uploads.remove, job_id)

    def _removed(self, job_id: str, reason: str, size: int) -> None:
        self._metrics.removed.labels(reason).inc()
        self._metrics.removed_bytes.labels(reason).inc(size)
        logger.info("files removed", extra={"job_id": job_id, "reason": reason, "bytes": size})

    def _holds(self, life: Lifetime) -> bool:
        return self._artifacts.holds(life.id) or self._uploads.holds(life.id)

    async def _pause_s(self, now: int) -> float:
        if self._ended.noted:
            return TROUBLE_PAUSE_S
        held = (life.expires_us for life in self._kept.values() if self._artifacts.holds(life.id))
        due = [at for at in held if at is not None]
        if self._limits.records_s is not None and (ended := await self._store.first_end_us(now)) is not None:
            due.append(ended + round(self._limits.records_s * 1e6))
        if not due:
            return LOOK_AGAIN_S
        if min(due) <= now:  # it was tried, and is still there
            return TROUBLE_PAUSE_S
        return min(max((min(due) - self._now() // 1000) / 1e6, 0), LOOK_AGAIN_S)
