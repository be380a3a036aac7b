"""A dispatcher with a real store and real folders over a scripted engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from server.artifacts import JobFolders
from server.database import Database
from server.dispatcher import Dispatcher
from server.jobs import Job, JobStatus
from server.ledger import Ledger
from server.metrics import Metrics
from server.retention import Limits
from server.sections import QueueSettings
from server.store import Store
from tests.databases import url_for
from tests.server.scripted import ScriptedEngine

WAIT_S = 60


class Bench:
    """One run of the dispatcher; another one on the same folder is a restart."""

    def __init__(self, folder: Path, engine: ScriptedEngine, **settings: Any) -> None:
        self.engine = engine
        self.database = Database(url_for(folder))
        self.store = Store(self.database)
        self.artifacts, self.uploads = JobFolders(folder / "artifacts"), JobFolders(folder / "uploads")
        self.artifacts.open()
        self.uploads.open()
        ledger = Ledger(
            limits=Limits(files_s=None, files_bytes=None, records_s=None),
            min_free_bytes=0,
            store=self.store,
            artifacts=self.artifacts,
            uploads=self.uploads,
            metrics=Metrics(),
            slots=engine.slots,
        )
        self.dispatcher = Dispatcher(
            ledger=ledger,
            engine=engine,
            settings=QueueSettings(**settings),
            max_pending_bytes=2**20,
        )

    async def begun(self, count: int) -> None:
        """Wait until the engine was handed `count` tasks."""
        async with asyncio.timeout(WAIT_S):
            while len(self.engine.begun) < count:
                await asyncio.sleep(0.005)

    async def status(self, job: Job, status: JobStatus) -> Job:
        """The job, once its status is `status`."""
        async with asyncio.timeout(WAIT_S):
            while (found := await self.store.get(job.id)).status is not status:
                await asyncio.sleep(0.005)
        return found


@asynccontextmanager
async def dispatching(folder: Path, *, slots: int = 1, **settings: Any) -> AsyncIterator[Bench]:
    """A started dispatcher; `settings` as in the section `queue`."""
    made = Bench(folder, ScriptedEngine(slots), **settings)
    await made.database.open()
    await made.dispatcher.start()
    try:
        yield made
    finally:
        await made.dispatcher.stop()
        await made.database.close()


@asynccontextmanager
async def killed(folder: Path, *jobs: Job, **settings: Any) -> AsyncIterator[Bench]:
    """A server that has begun a job and ends like a killed one: nothing is put in order."""
    bench = Bench(folder, ScriptedEngine(), **settings)
    others = asyncio.all_tasks()
    await bench.database.open()
    await bench.dispatcher.start()
    for job in jobs:
        await bench.dispatcher.submit(job)
    await bench.begun(1)
    await bench.status(await bench.store.get(bench.engine.begun[0]), JobStatus.IN_PROGRESS)
    yield bench
    lost = asyncio.all_tasks() - others
    for task in lost:
        task.cancel()
    await asyncio.gather(*lost, return_exceptions=True)
    await bench.database.close()


def error_code(job: Job) -> str | None:
    return None if job.error is None else job.error.code
