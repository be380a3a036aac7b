"""Storage that refuses: which errors mean it, and writes that go on trying until it takes them."""

from __future__ import annotations

import asyncio
import errno
import logging
import sqlite3
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError

T = TypeVar("T")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0

_ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ENODEV, errno.ESTALE}
)
_SQLITE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)
_SQLSTATES = frozenset({"53100", "25006", "58030"})
"""PostgreSQL's disk_full, read_only_sql_transaction and io_error."""

logger = logging.getLogger("reelserve.files")


def is_storage_error(error: BaseException) -> bool:
    """Whether a disk or a database is full, read-only or failing: nobody's mistake, and it may pass."""
    if isinstance(error, DBAPIError):
        cause = error.orig
        code = getattr(cause, "sqlite_errorcode", None)
        # The low byte is the kind; the others say more of it.
        return (code is not None and code & 0xFF in _SQLITE) or getattr(cause, "sqlstate", None) in _SQLSTATES
    return isinstance(error, OSError) and error.errno in _ERRNOS


async def persistently(write: Callable[[], Coroutine[Any, Any, T]], job_id: str) -> T:
    """The result of `write`, which is tried again for as long as the storage refuses it.

    Raises:
        Exception: what `write` raises for any other reason.
    """
    pause = FIRST_PAUSE_S
    while True:
        try:
            return await write()
        except (OSError, DBAPIError) as error:
            if not is_storage_error(error):
                raise
            told = {"job_id": job_id, "error": type(error.__cause__ or error).__name__, "seconds": pause}
            logger.error("the state of a job cannot be written, tried again", extra=told)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE_S)
