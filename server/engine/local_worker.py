"""One worker process on this machine, seen from the server: started, followed and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from multiprocessing.connection import Connection

from server import logs
from server.engine.base import (
    Cancel,
    Capabilities,
    Command,
    DeviceFree,
    EngineTask,
    Failed,
    JobEvent,
    Ready,
    Run,
    Setup,
    StartFailed,
    WorkerEvent,
)

STOP_SECONDS = 5.0
"""How long a worker may take to end by itself once its connection is shut."""

WORKER_DEFAULTS = {
    # Threads that spin while they wait for each other starve the encoder on a host of few cores: with
    # other work on both of two cores, decoding on the CPU took twice as long.
    "OMP_WAIT_POLICY": "PASSIVE",
    "TQDM_DISABLE": "1",  # progress bars have no place in a log
    "TRANSFORMERS_VERBOSITY": "error",  # nor have hints about optional packages
}
"""Environment of a worker, where the server's own does not say otherwise."""


class LocalWorker:
    """A worker process from start to death. All of it is used on the event loop."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._jobs: dict[str, asyncio.Queue[JobEvent]] = {}
        self._socket: socket.socket | None = None
        self._connection: Connection | None = None
        self.capabilities: Capabilities | None = None
        """What it reported; None while it starts and after its end."""
        self.start_failure: str | None = None
        """Why it refused to serve, if it did."""
        self.idle = False
        """Whether it can begin a task."""

    async def live(self) -> AsyncGenerator[WorkerEvent, None]:
        """Start the process and yield its events until it ends. Closing the generator ends the process.

        Jobs that are unfinished at the end get a last event `Failed` with the code `worker_crashed`.
        """
        process = self._start()  # at once: a start that is cancelled half-way would leave a process behind
        events: asyncio.Queue[WorkerEvent | None] = asyncio.Queue()
        self._follow(events)
        try:
            while (event := await events.get()) is not None:
                self._note(event)
                yield event
        finally:
            self.idle, self.capabilities = False, None
            await self._end(process)
            for job_id, job_events in self._jobs.items():
                job_events.put_nowait(Failed(job_id, "worker_crashed", "the worker process died"))

    def begin(self, task: EngineTask) -> asyncio.Queue[JobEvent]:
        """Hand an idle worker a task; its events appear in the queue."""
        self.idle = False
        self._jobs[task.job_id] = events = asyncio.Queue[JobEvent]()
        self._send(Run(task))
        return events

    def cancel(self, job_id: str) -> None:
        """Ask the job to stop, if it runs here."""
        if job_id in self._jobs:
            self._send(Cancel(job_id))

    def forget(self, job_id: str) -> None:
        """The job's events are no longer wanted."""
        self._jobs.pop(job_id, None)

    def _start(self) -> subprocess.Popen[bytes]:
        ours, theirs = socket.socketpair()
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "server.engine.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,  # standard output is the server's own: one line when it is ready
                pass_fds=(theirs.fileno(),),
                env=WORKER_DEFAULTS | os.environ | logs.for_children(),
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

    def _note(self, event: WorkerEvent) -> None:
        match event:
            case Ready(capabilities):
                self.capabilities, self.idle = capabilities, True
                return
            case StartFailed(message):
                self.start_failure = message
                return
            case DeviceFree():
                self.idle = True
        if event.job_id in self._jobs:
            self._jobs[event.job_id].put_nowait(event)

    def _send(self, command: Setup | Command) -> None:
        assert self._connection is not None
        with contextlib.suppress(OSError):  # a dead worker's jobs are failed where its end is seen
            self._connection.send(command)

    async def _end(self, process: subprocess.Popen[bytes]) -> None:
        assert self._socket is not None
        with contextlib.suppress(OSError):  # already shut by the worker's death
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            await asyncio.to_thread(_wait, process)
        finally:
            self._socket.close()


def _wait(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
