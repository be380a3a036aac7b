"""Databases for tests: what touches one is tried on both kinds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

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


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'jobs.sqlite3'}"
        return
    found: Postgres = request.getfixturevalue("postgres")
    with found.database() as url:
        yield url
