"""A database that cannot be reached for a while: one error for the callers, two lines in the log."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from server.errors import StoreUnavailable
from server.storage import is_storage_error

logger = logging.getLogger("reelserve.store")

RETRY_S = 5
"""What a client is told to wait."""


class Outage:
    """Whether the database can be used, as far as the last attempt showed."""

    def __init__(self) -> None:
        self._since: float | None = None

    @property
    def seconds(self) -> float:
        """How long it has not been usable; 0 while it is."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    @contextmanager
    def noticed(self) -> Iterator[None]:
        """Use the database in the block.

        Raises:
            StoreUnavailable: it cannot be reached, or is too busy. Nothing of a transaction was written,
                unless it was the answer to its commit that was lost.
        """
        try:
            yield
        except (DBAPIError, NoConnectionFree) as error:
            if not _passes(error):
                raise
            self._begin(error)
            raise StoreUnavailable("the job database cannot be used now", RETRY_S) from error
        else:
            self._end()

    def _begin(self, error: Exception) -> None:
        if self._since is None:
            self._since = time.monotonic()
            cause = getattr(error, "orig", None) or error
            logger.error("the database cannot be used", extra={"error": type(cause).__name__})

    def _end(self) -> None:
        if self._since is not None:
            logger.warning("the database can be used again", extra={"seconds": round(self.seconds, 1)})
            self._since = None


def _passes(error: DBAPIError | NoConnectionFree) -> bool:
    """Whether the same statement may succeed later, without anybody's doing."""
    if isinstance(error, NoConnectionFree):
        return True
    if is_storage_error(error):  # somebody has to make room
        return False
    if isinstance(error.orig, sqlite3.Error):
        return getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
    return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
