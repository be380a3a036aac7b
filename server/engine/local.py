"""The engine on this machine: one worker process per device, started again when it dies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from encoding.formats import Mp4Codec
from pipelines.base import ModelConfig
from server.engine.base import Capabilities, EngineTask, Failed, Finished, JobEvent, Ready, Setup
from server.engine.local_worker import LocalWorker
from server.engine.restarts import EndReason, Life, Restarts
from server.sections import EngineSettings

logger = logging.getLogger("reelserve.engine")


class LocalEngine:
    """`server.engine.base.Engine` over local worker processes, each of which serves all models."""

    def __init__(
        self, settings: EngineSettings, models: tuple[ModelConfig, ...], mp4_codec: Mp4Codec = "libx264"
    ) -> None:
        self._settings = settings
        self._workers = [
            LocalWorker(Setup(device, models, mp4_codec), settings) for device in settings.devices
        ]
        self._changed = asyncio.Condition()
        self._keepers: list[asyncio.Task[None]] = []
        self._capabilities: Capabilities | None = None
        self._given_up: list[str] = []
        """Why each worker that stays down does."""
        self._wanted: set[str] = set()
        """Jobs that are to be run, and have not been cancelled."""
        self._watchers: list[Callable[[EndReason], None]] = []

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
        return self.up > 0

    @property
    def up(self) -> int:
        """See `Engine.up`."""
        return sum(worker.ready for worker in self._workers)

    def watch(self, note: Callable[[EndReason], None]) -> None:
        """See `Engine.watch`."""
        self._watchers.append(note)

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
        chances = 2
        self._wanted.add(task.job_id)  # also between two workers
        try:
            while chances > 0:
                chances -= 1
                worker = await self._idle(task.job_id)
                if worker is None:
                    yield Failed(task.job_id, "cancelled", "the job was cancelled")
                    return
                async with aclosing(_on(worker, task)) as events:
                    async for event in events:
                        if chances > 0 and isinstance(event, Failed) and event.victim:
                            break  # it had not begun, or there would be no chance left
                        chances = 0
                        yield event
        finally:
            self._wanted.discard(task.job_id)

    async def cancel(self, job_id: str) -> None:
        """See `Engine.cancel`."""
        self._wanted.discard(job_id)
        for worker in self._workers:
            worker.cancel(job_id)
        await self._notify()

    async def _idle(self, job_id: str) -> LocalWorker | None:
        """A worker for the job; None if it was cancelled before there was one."""
        async with self._changed:
            await self._changed.wait_for(lambda: job_id not in self._wanted or self._has_idle())
        if job_id not in self._wanted:
            return None
        return next(worker for worker in self._workers if worker.idle)

    def _has_idle(self) -> bool:
        return any(worker.idle for worker in self._workers)

    async def _keep(self, worker: LocalWorker) -> None:
        restarts = Restarts(self._settings)
        while True:
            life = await self._follow(worker)
            for note in self._watchers:
                note(life.reason)
            pause = restarts.pause(life)
            if pause is None:
                break
            logger.info("worker is started again", extra={"device": worker.device, "seconds": pause})
            await asyncio.sleep(pause)
            await worker.gone()
        self._given_up.append(restarts.verdict(life))
        about = {"device": worker.device, "reason": self._given_up[-1]}
        logger.error("worker stays down", extra=about)
        await self._notify()

    async def _follow(self, worker: LocalWorker) -> Life:
        """One life of the worker."""
        try:
            async with aclosing(worker.live()) as events:
                async for event in events:
                    if isinstance(event, Ready):
                        self._capabilities = event.capabilities
                    await self._notify()
        except OSError as error:
            logger.exception("worker process cannot be started", extra={"device": worker.device})
            return Life(f"cannot be started: {error}", None)
        await self._notify()
        assert worker.life is not None
        return worker.life

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def _on(worker: LocalWorker, task: EngineTask) -> AsyncGenerator[JobEvent, None]:
    """Run a task on an idle worker."""
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
