"""One worker process on this machine, seen from the server: started, followed and ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator
from multiprocessing.connection import Connection

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
from server.sections import EngineSettings

logger = logging.getLogger("reelserve.engine")

STOP_SECONDS = 5.0
"""How long a worker may take to end by itself once its connection is shut."""
KILL_SECONDS = 10.0
"""How long the kernel may take to end a killed one, before its jobs are given up."""
RETIRE_SECONDS = 60.0
"""How long a worker whose device is lost may take to end by itself."""

LOST: tuple[EndReason, str] = ("device_lost", "lost its device")

WORKER_DEFAULTS = {
    # Threads that spin while they wait for each other starve the encoder on a host of few cores: with
    # other work on both of two cores, decoding on the CPU took twice as long.
    "OMP_WAIT_POLICY": "PASSIVE",
    "TQDM_DISABLE": "1",  # progress bars have no place in a log
    "SVT_LOG": "1",  # of libsvtav1: errors only
    "TRANSFORMERS_VERBOSITY": "error",  # nor have hints about optional packages
}
"""Environment of a worker, where the server's own does not say otherwise."""


class LocalWorker:
    """A worker process from start to death, again and again. All of it is used on the event loop."""

    def __init__(self, setup: Setup, settings: EngineSettings) -> None:
        self._setup = setup
        self._settings = settings
        self._held = HeldTasks()
        self._socket: socket.socket | None = None
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
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
            await _ended(self._process, None)

    async def live(self) -> AsyncGenerator[WorkerEvent, None]:
        """Start the process and yield its events until it ends. Closing the generator ends the process.

        Then `life` says how it went, and jobs that were unfinished have had a last event `Failed`.

        Raises:
            OSError: no process can be started.
        """
        self._begin_life()
        process = self._process = self._start()  # at once: a start cancelled half-way would leave a process
        events: asyncio.Queue[WorkerEvent | None] = asyncio.Queue()
        self._follow(events)
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
        self._send(Run(task))
        return events

    def cancel(self, job_id: str) -> None:
        """Ask the job to stop, if it runs here; one that does not is ended with the process."""
        if job_id in self._held:
            self._send(Cancel(job_id))
            loop, seconds = asyncio.get_running_loop(), self._settings.cancel_timeout_s
            self._held.stopping(job_id, loop.call_later(seconds, self._overdue, job_id))

    def forget(self, job_id: str) -> None:
        """The job's events are no longer wanted."""
        self._held.forget(job_id)

    def _start(self) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair()
        with theirs:
            # On the event loop's thread, not on another one: see `lifeline.die_with`.
            process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "server.engine.worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,  # standard output is the server's own: one line when it is ready
                pass_fds=(theirs.fileno(),),
                env=worker_environment(),
            )
        self._socket = ours
        self._connection = Connection(os.dup(ours.fileno()))  # it closes its own
        self._send(self._setup)
        return process

    def _follow(self, events: asyncio.Queue[WorkerEvent | None]) -> None:
        connection, loop = self._connection, asyncio.get_running_loop()
        assert connection is not None

        def pump() -> None:
            while True:
                try:
                    event = connection.recv()
                except (EOFError, OSError):
                    event = None
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                    loop.call_soon_threadsafe(events.put_nowait, event)
                if event is None:
                    connection.close()
                    return

        threading.Thread(target=pump, name="worker-events", daemon=True).start()

    async def _watch(
        self, process: subprocess.Popen[bytes], events: asyncio.Queue[WorkerEvent | None]
    ) -> None:
        """Kill a process that takes too long for what it is at, and notice the end of any.

        Time is counted in ticks of this task, not by the clock: while the server itself was paused (with its
        container, or with the machine) no tick passed, and the worker is not to blame for its silence.
        """
        age_s = lost_s = 0.0
        while process.poll() is None:
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

    def _send(self, command: Setup | Command) -> None:
        assert self._connection is not None
        with contextlib.suppress(OSError):  # a dead worker's jobs are failed where its end is seen
            self._connection.send(command)

    async def _end(self, process: subprocess.Popen[bytes]) -> None:
        """End the process and wait for that, up to a bound."""
        self._free = False
        assert self._socket is not None
        with contextlib.suppress(OSError):  # already shut by the worker's death
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            if self.capabilities is None:  # it may be reading libraries or weights, and has nothing to tidy
                process.kill()
            if not await _ended(process, STOP_SECONDS):
                process.kill()
                await _ended(process, KILL_SECONDS)
        finally:
            process.kill()  # where this wait was itself called off
            self.capabilities = None
            self._socket.close()

    def _note_end(self, process: subprocess.Popen[bytes], level: int) -> None:
        killed = self._killed or (LOST if self._device_lost else None)
        reason, how = killed or (None, _how(process.returncode))
        ready_s = None if self._ready_at is None else time.monotonic() - self._ready_at
        self.life = Life(how, ready_s, self._worked, self._refusal, reason)
        about: logs.Fields = {"worker_pid": process.pid, "reason": how}
        logger.log(level, "worker ended", extra=about | {"device": self.device})
        for job_id, place in self._held.places().items():
            told = f"{how}; the job was {place.value}"
            logger.warning("job lost with its worker", extra=about | {"job_id": job_id, "reason": told})
        self._held.bury(how, known=reason == "cancel_ignored")


async def _ended(process: subprocess.Popen[bytes], seconds: float | None) -> bool:
    """Whether the process ends within `seconds`; None waits for ever. Polled: threads can't be called off."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while process.poll() is None:  # noqa: ASYNC110 - nothing tells a process's end to every kind of loop
                await asyncio.sleep(0.01)
    return process.poll() is not None


def _how(status: int | None) -> str:
    if status is None:
        return "cannot be ended by the kernel"
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-status).name}"
        return f"was killed by signal {-status}"
    return f"ended with status {status}"


def worker_environment() -> dict[str, str]:
    """Ours without our own settings: a worker is told its part of them, and the others may be secret."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("REELSERVE_")}
    return {**WORKER_DEFAULTS, **others, **logs.for_children()}
