"""The one database, and the tables that other modules describe."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from sqlalchemy import MetaData
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from server.connections import WRITES, connect, parse_url, prepare_sqlite, shown_url, sqlite_file
from server.jobs import Job
from server.migrations import upgrade
from server.start import StartError

P = ParamSpec("P")
T = TypeVar("T")

METADATA = MetaData()
"""Every table. A module that has one describes it here, and a revision in `server.migrations` makes it."""


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
    """Where jobs, and what belongs to them, outlive the server: SQLite or PostgreSQL, by URL.

    Raises:
        StartError: the URL means neither.
    """

    def __init__(self, url: str) -> None:
        self._url = parse_url(url)
        self._engine = connect(self._url)
        self._writer = self._engine.execution_options(**{WRITES: True})
        self._file = sqlite_file(self._url)
        # Of SQLite's writers one goes at a time; those that queue here are served in order, and at once.
        self._turn = None if self._file is None else asyncio.Lock()

    async def open(self) -> None:
        """Bring its tables up to date.

        Raises:
            StartError: it cannot be reached, read or written, or a newer version has changed it.
        """
        try:
            if self._file is not None:
                await asyncio.to_thread(prepare_sqlite, self._file)
            async with self.writing() as connection:
                await connection.run_sync(upgrade)
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise StartError(f"store.url: {shown_url(self._url)}: {_reason(error)}") from None

    async def close(self) -> None:
        await self._engine.dispose()

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection to read from."""
        return self._engine.connect()

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: committed at the end of the block, undone if that is left by an exception.

        Use it in functions that are `uninterrupted`. In SQLite no other one writes meanwhile; in PostgreSQL
        a row that was written is locked until the end, and what others committed meanwhile can be seen.
        """
        async with self._turn or nullcontext(), self._writer.begin() as connection:
            yield connection


def _reason(error: Exception) -> str:
    """The driver's own words, without the statement."""
    told = getattr(error, "orig", None) or error
    return " ".join(str(told).split())
