"""The engine on this machine: one worker process per device, started again when it dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from pipelines.base import ModelConfig
from server.engine.base import Capabilities, EngineTask, Failed, Finished, JobEvent, Ready, Setup
from server.engine.local_worker import LocalWorker
from server.settings import EngineSettings

logger = logging.getLogger("reelserve.engine")


class LocalEngine:
    """`server.engine.base.Engine` over local worker processes, each of which serves all models."""

    def __init__(self, settings: EngineSettings, models: tuple[ModelConfig, ...]) -> None:
        self._settings = settings
        self._workers = [LocalWorker(Setup(device, models)) for device in settings.devices]
        self._changed = asyncio.Condition()
        self._keepers: list[asyncio.Task[None]] = []
        self._capabilities: Capabilities | None = None
        self._given_up: list[str] = []
        """Why each worker that stays down does."""
        self._pending: set[str] = set()
        """Jobs that no worker has begun."""

    @property
    def capabilities(self) -> Capabilities | None:
        """See `Engine.capabilities`."""
        return self._capabilities

    @property
    def slots(self) -> int:
        """See `Engine.slots`."""
        return len(self._workers)

    @property
    def failure(self) -> str | None:
        """See `Engine.failure`."""
        return "; ".join(self._given_up) if len(self._given_up) == len(self._workers) else None

    @property
    def ready(self) -> bool:
        """See `Engine.ready`."""
        return any(worker.capabilities is not None for worker in self._workers)

    async def start(self) -> None:
        """See `Engine.start`."""
        self._keepers = [asyncio.create_task(self._keep(worker)) for worker in self._workers]

    async def stop(self) -> None:
        """See `Engine.stop`."""
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)

    async def wait_idle(self) -> None:
        """See `Engine.wait_idle`."""
        async with self._changed:
            await self._changed.wait_for(self._has_idle)

    async def wait_ready(self) -> None:
        """See `Engine.wait_ready`."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.ready or self.failure is not None)

    async def run(self, task: EngineTask) -> AsyncGenerator[JobEvent, None]:
        """See `Engine.run`."""
        worker = await self._idle(task.job_id)
        if worker is None:
            yield Failed(task.job_id, "cancelled", "the job was cancelled")
            return
        events = worker.begin(task)
        event: JobEvent | None = None
        try:
            while not isinstance(event, Finished | Failed):
                event = await events.get()
                yield event
        finally:
            if not isinstance(event, Finished | Failed):
                worker.cancel(task.job_id)
            worker.forget(task.job_id)

    async def cancel(self, job_id: str) -> None:
        """See `Engine.cancel`."""
        self._pending.discard(job_id)
        for worker in self._workers:
            worker.cancel(job_id)
        await self._notify()

    async def _idle(self, job_id: str) -> LocalWorker | None:
        """A worker for the job; None if it was cancelled before there was one."""
        self._pending.add(job_id)
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: job_id not in self._pending or self._has_idle())
            if job_id not in self._pending:
                return None
            return next(worker for worker in self._workers if worker.idle)
        finally:
            self._pending.discard(job_id)

    def _has_idle(self) -> bool:
        return any(worker.idle for worker in self._workers)

    async def _keep(self, worker: LocalWorker) -> None:
        failures = 0
        while failures < self._settings.max_start_failures and worker.start_failure is None:
            was_ready = await self._follow(worker)
            failures = 0 if was_ready else failures + 1
            why = "" if was_ready else f" before it was ready: {worker.start_failure or 'it died'}"
            logger.warning("a worker ended%s", why)
            await asyncio.sleep(self._settings.restart_delay_s)
        self._given_up.append(worker.start_failure or f"the worker died {failures} times while it started")
        logger.error("a worker stays down: %s", self._given_up[-1])
        await self._notify()

    async def _follow(self, worker: LocalWorker) -> bool:
        """One life of the worker; whether it became ready."""
        was_ready = False
        async with aclosing(worker.live()) as events:
            async for event in events:
                if isinstance(event, Ready):
                    was_ready, self._capabilities = True, event.capabilities
                await self._notify()
        await self._notify()
        return was_ready

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()
