"""Errors by which a disk or a database refuses, raised by the real ones."""

from __future__ import annotations

import errno
import sqlite3

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from server.database import Database
from server.errors import StoreUnavailable
from server.storage import is_storage_error
from tests.postgres import Postgres


@pytest.mark.parametrize(
    ("code", "refuses"),
    [
        (errno.ENOSPC, True),
        (errno.EDQUOT, True),
        (errno.EROFS, True),
        (errno.EIO, True),
        (errno.EFBIG, True),
        (errno.ENOENT, False),
        (errno.EACCES, False),
        (errno.EPIPE, False),
    ],
)
def test_what_the_system_says(code: int, refuses: bool) -> None:
    """Room may come back; a missing file or permission is somebody's mistake."""
    assert is_storage_error(OSError(code, "no")) is refuses


@pytest.mark.parametrize(
    ("setup", "statement", "refuses"),
    [
        ("PRAGMA max_page_count=2", "CREATE TABLE b (c)", True),
        ("PRAGMA query_only=1", "CREATE TABLE b (c)", True),
        ("SELECT 1", "CREATE TABLE a (c)", False),
        ("SELECT 1", "nonsense", False),
    ],
)
def test_what_sqlite_says(setup: str, statement: str, refuses: bool) -> None:
    """Full and read-only, by its own codes; never what is wrong with a statement."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE a (c)")
    connection.execute(setup)
    with pytest.raises(sqlite3.OperationalError) as raised:
        connection.execute(statement)
    connection.close()
    assert is_storage_error(DBAPIError(statement, {}, raised.value)) is refuses


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("state", "refuses"), [("53100", True), ("25006", True), ("58030", True), ("23505", False)]
)
async def test_what_postgresql_says(postgres: Postgres, state: str, refuses: bool) -> None:
    """By its own codes, through the driver; that it is full is no outage, which would pass by itself."""
    statement = text(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{state}'; END $$")
    with postgres.database() as url:
        database = Database(url)
        await database.open()
        try:
            with pytest.raises(DBAPIError) as raised:
                async with database.writing() as connection:
                    await connection.execute(statement)
        finally:
            await database.close()
    assert not isinstance(raised.value, StoreUnavailable)
    assert is_storage_error(raised.value) is refuses
