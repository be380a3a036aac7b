"""What SQLite needs to be told, so that readers and the writer do not get into each other's way."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, event

BUSY_S = 10
"""How long a writer waits for one of another process."""

# Below this it writes the values of each statement: prompts.
logging.getLogger("aiosqlite").setLevel(logging.WARNING)

WRITES = "reelserve_writes"
"""Execution option of a connection whose transactions write."""


def listen(engine: Engine) -> None:
    """Have the connections of an engine made and begun as they have to be."""
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)


def prepare(file: Path) -> None:
    """Make the file where there is none, and see that it can be written. Blocks.

    Raises:
        sqlite3.Error: it is no database, or the system refuses it.
    """
    # Without the asynchronous driver, which leaves a thread behind if it cannot open a file.
    with closing(sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")  # the file remembers it
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")


def _configure(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver would begin transactions by itself, and too late
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous=FULL")  # what was answered outlives a power failure, too
    cursor.execute(f"PRAGMA busy_timeout={BUSY_S * 1000}")
    cursor.close()


def _begin(connection: Connection) -> None:
    """A writer takes the write lock as it begins.

    One that took it later, after it had read, would be refused at once if another had written meanwhile.
    """
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
