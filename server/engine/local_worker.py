"""A worker on this machine, through the lives of its processes: watched, and given its tasks."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator

from server import logs
from server.engine.base import (
    HEARTBEAT_S,
    Cancel,
    Capabilities,
    Command,
    DeviceFree,
    DeviceLost,
    EngineTask,
    Finished,
    Heartbeat,
    JobEvent,
    Ready,
    Run,
    Setup,
    StartFailed,
    WorkerEvent,
)
from server.engine.held import HeldTasks
from server.engine.restarts import EndReason, Life
from server.engine.worker_process import WorkerProcess
from server.sections import EngineSettings

logger = logging.getLogger("reelserve.engine")

RETIRE_SECONDS = 60.0
"""How long a worker whose device is lost may take to end by itself."""

LOST: tuple[EndReason, str] = ("device_lost", "lost its device")


class LocalWorker:
    """A worker process from start to death, again and again. All of it is used on the event loop."""

    def __init__(self, setup: Setup, settings: EngineSettings) -> None:
        self._setup = setup
        self._settings = settings
        self._held = HeldTasks()
        self._process: WorkerProcess | None = None
        self._begin_life()

    def _begin_life(self) -> None:
        self.capabilities: Capabilities | None = None
        """What it reported; None while it starts, when its device is lost, and after its end."""
        self.life: Life | None = None
        """How the last life went; None while one lasts."""
        self._free = False
        self._silent_s: float | None = None
        """Time since its last message; None before the first."""
        self._refusal: StartFailed | None = None
        self._ready_at: float | None = None
        self._worked = False
        self._device_lost = False
        self._killed: tuple[EndReason, str] | None = None
        """Why the server killed it, if it did."""

    @property
    def device(self) -> str:
        """As it is configured."""
        return self._setup.device

    @property
    def ready(self) -> bool:
        """Whether it serves; not while it is suspiciously silent."""
        silent = 0.0 if self._silent_s is None else self._silent_s
        return self.capabilities is not None and silent < self._settings.heartbeat_timeout_s / 3

    @property
    def idle(self) -> bool:
        """Whether it can begin a task."""
        return self._free and self.ready

    async def gone(self) -> None:
        """Return when the last process is gone: the kernel may be slow to end one, which holds its device."""
        if self._process is not None:
            await self._process.ended(None)

    async def live(self) -> AsyncGenerator[WorkerEvent, None]:
        """Start the process and yield its events until it ends. Closing the generator ends the process.

        Then `life` says how it went, and jobs that were unfinished have had a last event `Failed`.

        Raises:
            OSError: no process can be started.
        """
        self._begin_life()
        process = self._process = WorkerProcess(self._setup)  # no await: a start half-way would leave one
        events: asyncio.Queue[WorkerEvent | None] = asyncio.Queue()
        process.follow(events)
        watch = asyncio.create_task(self._watch(process, events))
        level = logging.INFO  # for an end that the server wants
        try:
            while (event := await events.get()) is not None:
                self._note(event)
                yield event
            level = logging.WARNING
        finally:
            watch.cancel()
            await self._end(process)
            self._note_end(process, level)

    def begin(self, task: EngineTask) -> asyncio.Queue[JobEvent]:
        """Hand an idle worker a task; its events appear in the queue."""
        self._free = False
        events = self._held.add(task.job_id)
        self._tell(Run(task))
        return events

    def cancel(self, job_id: str) -> None:
        """Ask the job to stop, if it runs here; one that does not is ended with the process."""
        if job_id in self._held:
            self._tell(Cancel(job_id))
            loop, seconds = asyncio.get_running_loop(), self._settings.cancel_timeout_s
            self._held.stopping(job_id, loop.call_later(seconds, self._overdue, job_id))

    def forget(self, job_id: str) -> None:
        """The job's events are no longer wanted."""
        self._held.forget(job_id)

    def _tell(self, command: Command) -> None:
        assert self._process is not None
        self._process.send(command)

    async def _watch(self, process: WorkerProcess, events: asyncio.Queue[WorkerEvent | None]) -> None:
        """Kill a process that takes too long for what it is at, and notice the end of any.

        Time is counted in ticks of this task, not by the clock: while the server itself was paused (with its
        container, or with the machine) no tick passed, and the worker is not to blame for its silence.
        """
        age_s = lost_s = 0.0
        while process.runs:
            await asyncio.sleep(HEARTBEAT_S)
            age_s += HEARTBEAT_S
            lost_s += HEARTBEAT_S if self._device_lost else 0
            if self._silent_s is not None:
                self._silent_s += HEARTBEAT_S
            if (why := self._overtime(age_s, lost_s)) is not None:
                self._kill(*why)
        # What it sent before its end is being read. The end of the connection may never come, though: a
        # child of the worker can have inherited the other end.
        await asyncio.sleep(HEARTBEAT_S)
        events.put_nowait(None)

    def _overtime(self, age_s: float, lost_s: float) -> tuple[EndReason, str] | None:
        limits = self._settings
        if self._silent_s is not None and self._silent_s >= limits.heartbeat_timeout_s:
            return "silent", "stopped answering"
        if self._ready_at is None and age_s >= limits.start_timeout_s:
            return "start_failed", f"was not ready within {limits.start_timeout_s:g} s"
        return LOST if lost_s >= RETIRE_SECONDS else None

    def _overdue(self, job_id: str) -> None:
        logger.error("cancelled job does not stop, its worker is killed", extra={"job_id": job_id})
        self._worked = True  # a step that is too long says nothing about the next worker
        self._kill("cancel_ignored", "was ended because a cancelled job did not stop")

    def _kill(self, reason: EndReason, why: str) -> None:
        assert self._process is not None
        self._killed = self._killed or (reason, why)
        self._process.kill()

    def _note(self, event: WorkerEvent) -> None:
        self._silent_s = 0
        match event:
            case Heartbeat():
                return
            case Ready(capabilities):
                self.capabilities, self._free, self._ready_at = capabilities, True, time.monotonic()
                return
            case StartFailed():
                self._refusal = event
                return
            case DeviceLost():
                self._device_lost, self._free, self.capabilities = True, False, None
                return
            case DeviceFree():
                self._free = not self._device_lost
            case Finished():
                self._worked = True
        self._held.note(event)

    async def _end(self, process: WorkerProcess) -> None:
        self._free = False
        try:
            # One that is not ready may be reading libraries or weights, and has nothing to tidy.
            await process.end(at_once=self.capabilities is None)
        finally:
            self.capabilities = None

    def _note_end(self, process: WorkerProcess, level: int) -> None:
        killed = self._killed or (LOST if self._device_lost else None)
        reason, how = killed or (None, process.how_it_ended)
        ready_s = None if self._ready_at is None else time.monotonic() - self._ready_at
        self.life = Life(how, ready_s, self._worked, self._refusal, reason)
        about: logs.Fields = {"worker_pid": process.pid, "reason": how}
        logger.log(level, "worker ended", extra=about | {"device": self.device})
        for job_id, place in self._held.places().items():
            told = f"{how}; the job was {place.value}"
            logger.warning("job lost with its worker", extra=about | {"job_id": job_id, "reason": told})
        self._held.bury(how, known=reason == "cancel_ignored")
