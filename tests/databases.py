"""Databases for tests: what touches one is tried on both kinds."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import make_url

from server.database import Database
from tests.postgres import Cluster, Postgres, programs


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL for the whole run."""
    if (url := os.environ.get("TEST_POSTGRES_URL")) is not None:
        yield Postgres(make_url(url))
        return
    bin_folder = programs()
    assert bin_folder is not None
    # A short path that others may enter: it holds a socket, and the server's user is another one.
    with tempfile.TemporaryDirectory(prefix="reelserve-postgres-") as folder:
        cluster = Cluster(Path(folder), bin_folder)
        cluster.start()
        yield cluster
        cluster.stop()


@pytest.fixture(scope="session")
def template(postgres: Postgres) -> Iterator[str]:
    """The name of a PostgreSQL database with the tables of now and no rows: copied faster than made."""
    with postgres.database() as url:
        database = Database(url)

        async def fill() -> None:
            await database.open()
            await database.close()

        with ThreadPoolExecutor(1) as other:  # this thread may have a loop already
            other.submit(asyncio.run, fill()).result()
        name = make_url(url).database
        assert name is not None
        yield name


_URLS: dict[Path, str] = {}
"""Folder of a test → its database, if that is not in the folder."""


def url_for(folder: Path) -> str:
    """The database of a server with its files in `folder`: as `database_url` says where that is used."""
    given = (_URLS[above] for above in (folder, *folder.parents) if above in _URLS)
    return next(given, f"sqlite:///{folder / 'jobs.sqlite3'}")


KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of each kind for the servers of a test; they find it by `url_for`."""
    if request.param == "sqlite":
        yield url_for(tmp_path)
        return
    found: Postgres = request.getfixturevalue("postgres")
    with found.database(request.getfixturevalue("template")) as url:
        _URLS[tmp_path] = url
        yield url
        del _URLS[tmp_path]


@pytest.fixture(params=KINDS)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database of each kind without any table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.sqlite3'}"
        return
    found: Postgres = request.getfixturevalue("postgres")
    with found.database() as url:
        yield url
