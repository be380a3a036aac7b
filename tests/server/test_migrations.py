from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from server import migrations, sqlite
from server.database import METADATA, Database
from server.idempotency import IdempotencyKeys
from server.jobs import JobError, JobStatus, StoredFile
from server.schemas import VideoGenerationRequest
from server.start import StartError
from server.store import Store
from server.webhooks.outbox import Outbox
from server.webhooks.settings import WebhookSettings

T = TypeVar("T")
FIRST = Path(__file__).with_name("first_database.sql")
JOBS = [f"video_{number:032x}" for number in range(4)]
"""Those of `FIRST`: completed, failed, running, queued."""
KEYS_MADE_NS = 1_800_000_000_000_000_000


def execute(url: str, script: str) -> None:
    """SQL statements, without any of the code under test."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"))
        connection.executescript(script)
        connection.close()
        return
    with psycopg.connect(url, autocommit=True) as cursor:
        cursor.execute(script.encode())


@pytest.fixture
def first(empty_database_url: str) -> str:
    """A database of the first servers."""
    execute(empty_database_url, FIRST.read_text())
    return empty_database_url


async def seen(url: str, look: Callable[[Connection], T]) -> T:
    """What `look` sees in a database."""
    database = Database(url)
    async with database.reading() as connection:
        found = await connection.run_sync(look)
    await database.close()
    return found


async def opened(url: str) -> None:
    database = Database(url)
    try:
        await database.open()
    finally:
        await database.close()


async def test_jobs_of_the_first_servers_are_kept(first: str) -> None:
    """All of them, with what has been added since at its default, and in their order."""
    database = Database(first)
    await database.open()
    store = Store(database)
    done, failed, running, queued = [await store.get(job_id) for job_id in JOBS]
    await database.close()
    assert [job.status for job in (done, failed, running, queued)] == [
        JobStatus.COMPLETED,
        JobStatus.FAILED,
        JobStatus.IN_PROGRESS,
        JobStatus.QUEUED,
    ]
    assert (done.files, dict(done.timings)) == ((StoredFile("video.mp4", 12345),), {"generation": 0.75})
    assert failed.error == JobError("out_of_memory", "too large")
    assert {(job.owner, job.attempts, job.expires_us) for job in (done, failed, running, queued)} == {
        ("", 0, None)
    }
    assert queued.resolved.params.prompt == "a circle"


async def test_keys_and_events_of_the_first_servers_are_kept(first: str) -> None:
    """A request that is repeated after the upgrade means its job, and what was not delivered is due."""
    database = Database(first)
    await database.open()
    keys = IdempotencyKeys(database, lambda: KEYS_MADE_NS)
    claim = keys.claim("order-2", "/v1/videos", VideoGenerationRequest(prompt="a circle"))
    assert await keys.find(claim) == JOBS[2]
    url = "https://example.com/hook"
    outbox = Outbox(database, [WebhookSettings.model_validate({"url": url, "secret": "a secret"})])
    assert len(await outbox.due(url, now_us=2_000_000_000_000_000, limit=10)) == 2
    await database.close()


async def test_revisions_make_the_tables_of_the_code(first: str) -> None:
    """Alembic finds nothing to change, defaults included."""
    await opened(first)

    def differences(connection: Connection) -> Any:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        return compare_metadata(context, METADATA)

    assert await seen(first, differences) == []


def shape(connection: Connection) -> dict[str, Any]:
    """Every table with its columns, keys and indexes, in no order."""
    look = inspect(connection)
    return {
        table: (
            {
                column["name"]: (str(column["type"]), column["nullable"], column["default"])
                for column in look.get_columns(table)
            },
            look.get_pk_constraint(table),
            {index["name"]: index["column_names"] for index in look.get_indexes(table)},
        )
        for table in look.get_table_names()
    }


async def test_an_upgraded_database_is_like_a_new_one(
    first: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Column by column; so an old server's database is no special case later on."""
    await opened(first)
    old = await seen(first, shape)
    if first.startswith("sqlite"):
        fresh = f"sqlite:///{tmp_path / 'fresh.sqlite3'}"
        await opened(fresh)
        new = await seen(fresh, shape)
    else:
        with request.getfixturevalue("postgres").database() as fresh:
            await opened(fresh)
            new = await seen(fresh, shape)
    assert old == new
    assert set(new) == {"alembic_version", *METADATA.tables}


async def test_many_that_upgrade_at_once_do_not_collide(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight at the same time: one does it, all can work, and no row is lost or doubled."""
    monkeypatch.setattr(sqlite, "BUSY_S", 100)  # none is refused because this machine is busy
    await asyncio.gather(*(opened(first) for _ in range(8)))
    database = Database(first)
    assert await Store(database).ids() == set(JOBS)
    async with database.reading() as connection:
        versions = await connection.execute(text("SELECT version_num FROM alembic_version"))
        assert versions.scalars().all() == [migrations.HEAD]
    await database.close()


async def test_an_upgrade_that_fails_changes_nothing(first: str) -> None:
    """Half-way there is something in its way: the start is refused, and the tables are those of before."""
    execute(first, "CREATE INDEX ix_jobs_expires_us ON jobs (created_us)")
    before = await seen(first, shape)
    with pytest.raises(StartError, match="ix_jobs_expires_us"):
        await opened(first)
    assert await seen(first, shape) == before
    execute(first, "DROP INDEX ix_jobs_expires_us")
    await opened(first)


async def test_a_newer_database_is_left_alone(database_url: str) -> None:
    """The message names both revisions and what to do."""
    await opened(database_url)
    execute(database_url, "UPDATE alembic_version SET version_num = 'ffff'")
    before = await seen(database_url, shape)
    with pytest.raises(StartError, match=rf"store\.url: .* ffff, .* {migrations.HEAD}"):
        await opened(database_url)
    assert await seen(database_url, shape) == before


def test_the_newest_revision_is_named() -> None:
    """The revisions are one line, and its end is what the code believes it to be."""
    script = ScriptDirectory(str(Path(migrations.__file__).parent))
    assert script.get_heads() == [migrations.HEAD]
    assert script.get_bases() == [migrations.BASE]


PROGRAM = """
import asyncio, sys
from server.app import create_app
from server.database import Database

asyncio.run(Database(sys.argv[1]).open())
print(*[name for name in ("alembic", "psycopg") if name in sys.modules])
"""


async def test_a_start_with_nothing_to_do_imports_no_alembic(tmp_path: Path) -> None:
    """Nor the driver of a database that is not used: a start stays short."""
    url = f"sqlite:///{tmp_path / 'jobs.sqlite3'}"
    await opened(url)
    command = [sys.executable, "-c", PROGRAM, url]
    run = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def refusal(url: str) -> str:
    """Why a server with this database does not start."""
    with pytest.raises(StartError) as caught:
        asyncio.run(opened(url))
    return str(caught.value)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("jobs.sqlite3", "is not a database URL"),
        ("mysql://someone:hunter2@host/jobs", "mysql is not supported; allowed are sqlite, postgresql"),
        ("postgresql+asyncpg://someone:hunter2@host/jobs", "the driver asyncpg is not used here"),
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///file:jobs.sqlite3?uri=true&mode=memory", "the parameters uri, mode are not used here"),
        ("sqlite:////nowhere/at/all/jobs.sqlite3", "unable to open database file"),
        ("postgresql://someone:hunter2@127.0.0.1:1/jobs", "refused"),
        ("postgresql://someone@127.0.0.1:1/jobs?password=hunter2", "refused"),
    ],
)
def test_a_url_that_cannot_be_used(url: str, problem: str) -> None:
    """The setting and the reason; never the password."""
    told = refusal(url)
    assert told.startswith("store.url: ")
    assert problem in told
    assert "hunter2" not in told


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """Refused at the start, not with the first job."""
    (tmp_path / "jobs.sqlite3-wal").mkdir()  # where SQLite must write, and even root cannot
    assert refusal(f"sqlite:///{tmp_path / 'jobs.sqlite3'}").endswith("disk I/O error")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """It is left as it was."""
    file = tmp_path / "jobs.sqlite3"
    file.write_bytes(b"this is a text, and was never anything else" * 100)
    before = file.read_bytes()
    assert re.fullmatch(rf"store\.url: sqlite\S+{file}: file is not a database", refusal(f"sqlite:///{file}"))
    assert file.read_bytes() == before
