"""Child processes that do what must not happen in this one: they are few, and end in time."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass

from anyio import CancelScope, fail_after

EXIT_UNWRITTEN = 74
"""What our children exit with when the disk does not take their result; they print its `errno`."""
_KEPT_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended: its exit status, negative for a signal, and its standard output."""

    status: int
    output: bytes


class Children:
    """Runs Python programs, at most `limit` side by side; the next ones wait for their turn."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)

    async def run(
        self, *arguments: str, timeout_s: float, data: bytes = b"", variables: Mapping[str, str] | None = None
    ) -> Ended:
        """Run the interpreter with `arguments`, with `data` on standard input and `variables` added to a
        small environment.

        Whatever happens, a cancelled caller included, the child has ended then.

        Raises:
            TimeoutError: it was killed because it took longer, not counting the wait for its turn.
        """
        async with self._slots:
            process = await _start(arguments, variables or {})
            try:
                with fail_after(timeout_s):
                    output, _ = await process.communicate(data)
            finally:
                await _end(process)
        assert process.returncode is not None
        return Ended(process.returncode, output)


def environment() -> dict[str, str]:
    """What a child learns of this process's environment: nothing that could be secret."""
    return {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}


def unwritten(output: bytes) -> OSError:
    """The error behind `EXIT_UNWRITTEN`, without the path."""
    code = int(output) if output.strip().isdigit() else errno.EIO
    return OSError(code, os.strerror(code))


async def _start(arguments: tuple[str, ...], variables: Mapping[str, str]) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        cwd="/",
        env={**environment(), **variables},
    )


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
        with CancelScope(shield=True):
            await process.wait()
