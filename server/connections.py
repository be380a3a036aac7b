"""From `store.url` to connections: which databases there are, and what each needs to be told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from server import sqlite
from server.start import StartError

DRIVERS: Mapping[str, str] = MappingProxyType({"sqlite": "aiosqlite", "postgresql": "psycopg"})
"""Database → the driver that speaks to it."""

SQLITE_POOL = {"pool_size": 4, "max_overflow": 0}
"""Each connection is a thread: more of them only take the interpreter from each other."""

POSTGRES_POOL = {
    "pool_size": 8,
    "max_overflow": 8,
    "pool_timeout": 10,
    "pool_recycle": 1800,
    # A connection that did not outlive a restart of the database is replaced before it is used.
    "pool_pre_ping": True,
}
POSTGRES_CONNECT = {
    "application_name": "reelserve",
    "connect_timeout": 10,
    # A database whose machine has vanished is given up after half a minute, not after a quarter of an hour.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Parameters of libpq, where the URL does not say otherwise."""

HIDDEN = {"hide_parameters": True}
"""An error that is logged must not show what was to be written: prompts."""


def parse_url(text: str) -> URL:
    """The URL of a database that can be used, with its driver.

    Raises:
        StartError: it is no URL, names another database, or a SQLite that is not a file.
    """
    try:
        url = make_url(text)
    except ArgumentError:
        raise StartError(
            "store.url: is not a database URL, such as sqlite:////srv/jobs.sqlite3 "
            "or postgresql://user:password@host/database"
        ) from None
    name, _, driver = url.drivername.partition("+")
    name = "postgresql" if name == "postgres" else name
    if driver not in ("", DRIVERS.get(name)):
        raise _refusal(url, f"the driver {driver} is not used here; leave it out")
    if name not in DRIVERS:
        raise _refusal(url, f"{name} is not supported; allowed are {', '.join(DRIVERS)}")
    if name == "sqlite" and url.database in (None, "", ":memory:"):
        raise _refusal(url, "jobs in memory do not outlive the server; name a file")
    if name == "sqlite" and url.query:
        raise _refusal(url, f"the parameters {', '.join(url.query)} are not used here; name a file alone")
    return url.set(drivername=f"{name}+{DRIVERS[name]}")


def _refusal(url: URL, problem: str) -> StartError:
    return StartError(f"store.url: {shown_url(url)}: {problem}")


def shown_url(url: URL) -> str:
    """The URL without what may be secret, its password and its parameters, and without the driver."""
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string(hide_password=True)


def sqlite_file(url: URL) -> Path | None:
    """The file of a SQLite database."""
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def connect(url: URL) -> AsyncEngine:
    """An engine for a URL of `parse_url`; it connects when it is first used."""
    if url.get_backend_name() == "sqlite":
        engine = create_async_engine(url, **SQLITE_POOL, **HIDDEN)
        sqlite.listen(engine.sync_engine)
        return engine
    return create_async_engine(url, connect_args=postgres_parameters(url), **POSTGRES_POOL, **HIDDEN)


def postgres_parameters(url: URL) -> dict[str, Any]:
    """What a connection to this URL is opened with, beside what the URL says."""
    return {name: value for name, value in POSTGRES_CONNECT.items() if name not in url.query}
