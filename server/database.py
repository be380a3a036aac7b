"""The one database, and the tables that other modules describe."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

from sqlalchemy import ExceptionContext, MetaData, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from server import sqlite
from server.advisory import only_server_of_database
from server.connections import connect, parse_url, shown_url, sqlite_file
from server.exclusive import only_server_of
from server.jobs import Job
from server.migrations import upgrade
from server.outage import Outage
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
        self._file = sqlite_file(self._url)
        # Of SQLite's writers one goes at a time; those that queue here are served in order, and at once.
        self._turn = asyncio.Lock()
        self._writer: AsyncConnection | None = None
        self._outage = Outage()

    async def open(self) -> None:
        """Bring its tables up to date.

        Raises:
            StartError: it cannot be reached, read or written, or a newer version has changed it.
        """
        with self._refusing():
            if self._file is not None:
                await asyncio.to_thread(sqlite.prepare, self._file)
            async with self._transaction() as connection:
                await connection.run_sync(upgrade)

    async def close(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        await self._engine.dispose()

    def watch(self, note: Callable[[str], None]) -> None:
        """Call `note` with the name of the class of every error that the database answers with."""

        def on_error(context: ExceptionContext) -> None:
            note(type(context.sqlalchemy_exception or context.original_exception).__name__)

        event.listen(self._engine.sync_engine, "handle_error", on_error)

    @asynccontextmanager
    async def exclusively(self) -> AsyncIterator[None]:
        """Keep every other server from the database during the block.

        Raises:
            StartError: one has it already, or it cannot be reached.
        """
        if self._file is not None:
            lock = only_server_of(Path(f"{self._file}.lock"), "store.url", shown_url(self._url))
        else:
            lock = only_server_of_database(self._url)
        async with AsyncExitStack() as stack:
            with self._refusing():
                await stack.enter_async_context(lock)
            yield

    @property
    def down_s(self) -> float:
        """For how many seconds it has not been usable; 0 while it is."""
        return self._outage.seconds

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection to read from.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        with self._outage.noticed():
            async with self._engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction: committed at the end of the block, undone if that is left by an exception.

        Use it in functions that are `uninterrupted`. In SQLite no other one writes meanwhile; in PostgreSQL
        a row that was written is locked until the end, and what others committed meanwhile can be seen.

        Raises:
            StoreUnavailable: the database cannot be reached.
        """
        with self._outage.noticed():
            async with self._transaction() as connection:
                yield connection

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[AsyncConnection]:
        if self._file is None:
            async with self._engine.begin() as connection:
                yield connection
            return
        async with self._turn:
            if self._writer is None:
                connected = await self._engine.connect()
                self._writer = await connected.execution_options(**{sqlite.WRITES: True})
            async with self._writer.begin():
                yield self._writer

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            raise StartError(f"store.url: {shown_url(self._url)}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    """The driver's own words, without the statement."""
    told = getattr(error, "orig", None) or error
    return " ".join(str(told).split())
