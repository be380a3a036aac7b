"""One server per PostgreSQL database: an advisory lock, held by a connection that does nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import URL, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from server.connections import postgres_parameters, shown_url
from server.start import StartError

logger = logging.getLogger("reelserve.store")

KEY = 7_310_002
"""Of the lock, in each database."""
WAIT_S = 2.0
"""How long a start waits for the lock: PostgreSQL may not have noticed yet that its holder was killed."""
RETRY_S = 0.05
CHECK_S = 5.0
"""Pause between two looks whether the connection is still there."""

# A holder whose machine has vanished is given up after 30 s, not after the two hours that are usual.
_NOTICE = ("tcp_keepalives_idle = 15", "tcp_keepalives_interval = 5", "tcp_keepalives_count = 3")
_TAKE = text("SELECT pg_try_advisory_lock(:key)").bindparams(key=KEY)
_HOLDER = text(
    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
    "WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 0 AND l.objid = :key AND l.objsubid = 1 "
    "AND a.datname = current_database()"
).bindparams(key=KEY)


@asynccontextmanager
async def only_server_of_database(url: URL) -> AsyncIterator[None]:
    """Hold the lock for the block. When its connection is lost it is taken again, and the log says so.

    Raises:
        StartError: another server holds it.
        SQLAlchemyError: the database cannot be reached.
    """
    name = f"reelserve, pid {os.getpid()} on {socket.gethostname()}"
    engine = create_async_engine(
        url,
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args=postgres_parameters(url) | {"application_name": name[:63]},
    )
    connection = await engine.connect()
    try:
        if not await _taken(connection):
            holder = (await connection.execute(_HOLDER)).scalar() or "unknown"
            raise StartError(
                f"store.url: {shown_url(url)} is in use by another server ({holder}); stop it first, or give "
                "this one another database"
            )
        held = _Held(engine, connection)
    except BaseException:
        await connection.close()
        raise
    keeping = asyncio.create_task(held.keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await held.release()


async def _taken(connection: AsyncConnection) -> bool:
    """Whether the lock could be had in `WAIT_S`."""
    for setting in _NOTICE:
        await connection.execute(text(f"SET {setting}"))
    end = time.monotonic() + WAIT_S
    while not (await connection.execute(_TAKE)).scalar():
        if time.monotonic() >= end:
            return False
        await asyncio.sleep(RETRY_S)
    return True


class _Held:
    """The lock, and the connection that holds it."""

    def __init__(self, engine: AsyncEngine, connection: AsyncConnection) -> None:
        self._engine = engine
        self._connection: AsyncConnection | None = connection

    async def keep(self) -> None:
        """Look after it, for ever."""
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                await self._check()
            except (SQLAlchemyError, OSError) as error:
                logger.error("the lock of the database is lost", extra={"error": type(error).__name__})
                await self.release()

    async def _check(self) -> None:
        if self._connection is not None:
            await self._connection.execute(text("SELECT 1"))
            return
        connection = await self._engine.connect()
        if await _taken(connection):
            self._connection = connection
            logger.warning("the lock of the database is held again")
        else:
            await connection.close()
            logger.error("another server has taken the database: stop one of the two at once")

    async def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(SQLAlchemyError, OSError):
                await connection.close()
