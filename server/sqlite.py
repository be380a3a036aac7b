"""SQLite for an event loop: what takes microseconds is done at once, and only what may wait has a thread.

A driver with a thread per connection hands each read over and back some ten times. While the loop is busy
each of these waits for the interpreter, so a read of microseconds takes long as soon as many poll.
docs/decisions/2026-11-29-database.md has the figures.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import URL, AsyncAdaptedQueuePool, Connection, Engine, Pool, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import await_only

DRIVER = "sqlite+loop"

BUSY_S = 10
"""How long a writer waits for one of another process."""

_PATIENCE = f"PRAGMA busy_timeout={BUSY_S * 1000}"

WRITES = "reelserve_writes"
"""Execution option of a connection whose transactions write."""


class _Cursor(sqlite3.Cursor):
    async def _async_soft_close(self) -> None:
        """What SQLAlchemy asks of a cursor of an asynchronous driver; rows are in memory anyway."""


class _Connection(sqlite3.Connection):
    def cursor(self, factory: Any = _Cursor) -> Any:
        return super().cursor(factory)


class LoopDialect(SQLiteDialect_pysqlite):
    """The standard library's driver, for `create_async_engine`.

    Reads and statements within a transaction are answered from memory or the system's cache; in WAL mode no
    reader waits for a writer. Beginning to write waits for other processes, and a commit for the disk: these
    two are done in a thread, of which there is one, as there is one writer at a time.
    """

    driver = "loop"
    is_async = True
    supports_statement_cache = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="database")

    @classmethod
    def get_pool_class(cls, url: URL) -> type[Pool]:
        return AsyncAdaptedQueuePool

    def create_connect_args(self, url: URL) -> Any:
        arguments, options = super().create_connect_args(url)
        return arguments, {**options, "factory": _Connection}

    def do_execute(self, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
        await_only(_at_once())
        cursor.execute(statement, parameters)

    def do_executemany(self, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
        await_only(_at_once())
        cursor.executemany(statement, parameters)

    def do_commit(self, dbapi_connection: Any) -> None:
        self._wait_for(dbapi_connection.commit)

    def begin(self, connection: Connection) -> None:
        """Begin a transaction, and one that writes as a writer.

        One that took the write lock after it had read would be refused at once if another had written since.
        """
        driver: sqlite3.Connection = connection.connection.dbapi_connection  # type: ignore[assignment]
        if not connection.get_execution_options().get(WRITES, False):
            driver.execute("BEGIN")
        elif not _begun(driver):
            self._wait_for(lambda: driver.execute("BEGIN IMMEDIATE"))

    def _wait_for(self, work: Callable[[], object]) -> None:
        await_only(asyncio.get_running_loop().run_in_executor(self._thread, work))


def _begun(connection: sqlite3.Connection) -> bool:
    """Begin to write if that can be had at once, as it can unless another process writes."""
    connection.execute("PRAGMA busy_timeout=0")
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        return False
    finally:
        connection.execute(_PATIENCE)
    return True


async def _at_once() -> None:
    """Nothing: SQLAlchemy insists that an asynchronous driver awaits something in each statement."""


registry.register("sqlite.loop", __name__, LoopDialect.__name__)


def listen(engine: Engine) -> None:
    """Have the connections of an engine with this dialect made and begun as they have to be."""
    assert isinstance(engine.dialect, LoopDialect)
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", engine.dialect.begin)


def _configure(connection: sqlite3.Connection, _record: object) -> None:
    """Make a new connection as it has to be."""
    connection.isolation_level = None  # the driver would begin transactions by itself, and too late
    connection.execute("PRAGMA synchronous=FULL")  # what was answered outlives a power failure, too
    connection.execute(_PATIENCE)


def prepare(file: Path) -> None:
    """Make the file where there is none, and see that it can be written. Blocks.

    Raises:
        sqlite3.Error: it is no database, or the system refuses it.
    """
    with closing(sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")  # the file remembers it
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
