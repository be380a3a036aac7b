"""The one database: an engine, the tables that other modules describe, and what SQLite needs to be told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from sqlalchemy import MetaData, event
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from server.jobs import Job

P = ParamSpec("P")
T = TypeVar("T")

METADATA = MetaData()
"""Every table. A module that has one describes it here, so that opening the database creates it."""


def uninterrupted(
    write: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let what writes come to its end before a cancellation takes effect.

    A connection that is dropped within a transaction keeps SQLite locked until it is collected.
    """

    @wraps(write)
    async def whole(*args: P.args, **kwargs: P.kwargs) -> T:
        writing = asyncio.create_task(write(*args, **kwargs))
        try:
            return await asyncio.shield(writing)
        finally:
            await asyncio.wait({writing})

    return whole


class Beside(Protocol):
    """Rows that are written in the transaction of a job's own row: both are there, or neither."""

    async def write(self, connection: AsyncConnection, job: Job) -> None:
        """Write them. An exception undoes the job's row as well."""


class Ending(Beside, Protocol):
    """What is written with the last move of a job."""

    def written(self) -> None:
        """The transaction is committed."""


class Database:
    """Where jobs, and what belongs to them, outlive the server."""

    def __init__(self, url: str) -> None:
        # An error that is logged must not show what was to be written: prompts.
        self._engine: AsyncEngine = create_async_engine(url, hide_parameters=True)
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine.sync_engine, "connect", _configure_sqlite)

    async def open(self) -> None:
        """Create what it lacks."""
        async with self._engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)

    async def close(self) -> None:
        await self._engine.dispose()

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection to read from."""
        return self._engine.connect()

    def writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction: committed at the end of the block, undone if that is left by an exception.

        Use it in functions that are `uninterrupted`, and let its first statement write: SQLite refuses to
        turn a reader into a writer while another one writes.
        """
        return self._engine.begin()


def _configure_sqlite(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=10000"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
