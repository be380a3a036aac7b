"""Which errors mean that storage refuses."""

from __future__ import annotations

import errno
import sqlite3

from sqlalchemy.exc import DBAPIError

_ERRNOS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ENODEV, errno.ESTALE}
)
_SQLITE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}
)
_SQLSTATES = frozenset({"53100", "25006", "58030"})
"""PostgreSQL's disk_full, read_only_sql_transaction and io_error."""


def is_storage_error(error: BaseException) -> bool:
    """Whether a disk or a database is full, read-only or failing: nobody's mistake, and it may pass."""
    if isinstance(error, DBAPIError):
        cause = error.orig
        code = getattr(cause, "sqlite_errorcode", None)
        # The low byte is the kind; the others say more of it.
        return (code is not None and code & 0xFF in _SQLITE) or getattr(cause, "sqlstate", None) in _SQLSTATES
    return isinstance(error, OSError) and error.errno in _ERRNOS
