"""A worker's process, seen from the server: started, spoken with and ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection

from server import logs
from server.engine.base import Command, Setup, WorkerEvent

STOP_SECONDS = 5.0
"""How long a worker may take to end by itself once its connection is shut."""
KILL_SECONDS = 10.0
"""How long the kernel may take to end a killed one, before its jobs are given up."""

WORKER_DEFAULTS = {
    # Threads that spin while they wait for each other starve the encoder on a host of few cores: with
    # other work on both of two cores, decoding on the CPU took twice as long.
    "OMP_WAIT_POLICY": "PASSIVE",
    "TQDM_DISABLE": "1",  # progress bars have no place in a log
    "SVT_LOG": "1",  # of libsvtav1: errors only
    "TRANSFORMERS_VERBOSITY": "error",  # nor have hints about optional packages
}
"""Environment of a worker, where the server's own does not say otherwise."""


class WorkerProcess:
    """One process, from its start on. All of it is used on the event loop."""

    def __init__(self, setup: Setup) -> None:
        """
        Raises:
            OSError: no process can be started.
        """
        self._socket, theirs = socket.socketpair()
        with theirs:
            # On the event loop's thread, not on another one: see `lifeline.die_with`.
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [sys.executable, "-m", "server.engine.worker", str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,  # standard output is the server's own: one line when it is ready
                pass_fds=(theirs.fileno(),),
                env=worker_environment(),
            )
        self._connection = Connection(os.dup(self._socket.fileno()))  # it closes its own
        self.send(setup)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def send(self, command: Setup | Command) -> None:
        """Say something; a dead process does not hear it."""
        with contextlib.suppress(OSError):  # a dead worker's jobs are failed where its end is seen
            self._connection.send(command)

    def follow(self, events: asyncio.Queue[WorkerEvent | None]) -> None:
        """Put what it says into `events`, and None when it says no more."""
        loop = asyncio.get_running_loop()

        def pump() -> None:
            while True:
                try:
                    event = self._connection.recv()
                except (EOFError, OSError):
                    event = None
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
                    loop.call_soon_threadsafe(events.put_nowait, event)
                if event is None:
                    self._connection.close()
                    return

        threading.Thread(target=pump, name="worker-events", daemon=True).start()

    def kill(self) -> None:
        """End it without a word; it may already have ended."""
        self._process.kill()

    async def end(self, *, at_once: bool) -> None:
        """End it, by itself unless `at_once`, and wait for that, up to a bound."""
        with contextlib.suppress(OSError):  # already shut by the worker's death
            self._socket.shutdown(socket.SHUT_RDWR)
        try:
            if at_once:
                self.kill()
            if not await self.ended(STOP_SECONDS):
                self.kill()
                await self.ended(KILL_SECONDS)
        finally:
            self.kill()  # where this wait was itself called off
            self._socket.close()

    async def ended(self, seconds: float | None) -> bool:
        """Whether it ends within `seconds`; None waits for ever. Polled: threads can't be called off."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.runs:  # noqa: ASYNC110 - nothing tells a process's end to every kind of loop
                    await asyncio.sleep(0.01)
        return not self.runs

    @property
    def how_it_ended(self) -> str:
        """Words that follow its name."""
        status = self._process.returncode
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
