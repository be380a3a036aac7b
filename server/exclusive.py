"""One server per data folder: a lock that dies with its process."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from server.start import StartError

logger = logging.getLogger("reelserve.store")

WAIT_S = 2.0
"""How long a start waits for a lock: a server that was just killed may not be gone entirely."""
RETRY_S = 0.05


@asynccontextmanager
async def only_server_of(path: Path, setting: str, what: str) -> AsyncIterator[None]:
    """Hold the lock file `path` for the block; it is made, and stays behind.

    Child processes do not inherit it: a worker that outlives its killed server blocks no new one.

    Args:
        setting: the setting that led here, and `what` it names; for the message.

    Raises:
        StartError: another server holds it, or the file cannot be written.
    """
    try:
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StartError(f"{setting}: cannot write to {what}: {error.strerror}") from None
    try:
        if not await _locked(held):
            holder = os.pread(held, 200, 0).decode(errors="replace").strip() or "unknown"
            raise StartError(
                f"{setting}: {what} is in use by another server ({holder}); stop it first, or give this one "
                "another"
            )
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(held, 0)
            os.pwrite(held, f"pid {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(held)


async def _locked(held: int) -> bool:
    """Whether the lock could be had in `WAIT_S`."""
    end = time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            await asyncio.sleep(RETRY_S)
        except OSError as error:
            logger.warning(
                "the file system has no locks: see to it that no other server uses the folder",
                extra={"error": type(error).__name__},
            )
            return True
        else:
            return True
