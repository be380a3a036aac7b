from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from server import advisory
from server.connections import parse_url
from server.start import StartError
from tests.postgres import Postgres
from tests.server.running import serving

pytestmark = pytest.mark.postgres

HOLDER = """
import asyncio, sys
from server.database import Database

async def main():
    async with Database(sys.argv[1]).exclusively():
        print("held", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    with postgres.database() as made:
        yield made


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL gives a lock back when it sees that its holder is gone."""
    monkeypatch.setattr(advisory, "WAIT_S", 60)


@pytest.fixture
def _impatient(_patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisory, "WAIT_S", 0.1)
    monkeypatch.setattr(advisory, "CHECK_S", 0.05)


async def test_a_second_server_of_a_database_does_not_start(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even with a data folder of its own: each would run the other's jobs. The first goes on."""
    async with serving(tmp_path / "first", store={"url": url}) as first:
        job = (await first.post()).json()["id"]
        with monkeypatch.context() as patch:
            patch.setattr(advisory, "WAIT_S", 0.1)
            with pytest.raises(StartError, match=rf"store\.url: .* in use .*pid {os.getpid()} on"):
                async with serving(tmp_path / "second", store={"url": url}):
                    pass
        assert await first.finish() == job
    async with serving(tmp_path / "second", store={"url": url}) as second:
        assert (await second.client.get(f"/v1/videos/{job}")).json()["status"] == "completed"


@pytest.fixture
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


async def test_a_killed_server_leaves_its_database_free(
    tmp_path: Path, url: str, holder: subprocess.Popen[str]
) -> None:
    """`kill -9`, and the next one starts at once."""
    holder.kill()
    holder.wait()
    async with serving(tmp_path, store={"url": url}) as server:
        assert (await server.post()).status_code == 200


@pytest.mark.usefixtures("_impatient")
async def test_a_lost_lock_is_taken_again(
    url: str, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL ended the connection that held it: the log says so, and then that it is held again."""

    async def until(message: str) -> None:
        async with asyncio.timeout(60):
            while message not in caplog.messages:
                await asyncio.sleep(0.01)

    async with advisory.only_server_of_database(parse_url(url)):
        await asyncio.to_thread(postgres.disconnect, url)
        await until("the lock of the database is lost")
        await until("the lock of the database is held again")
        with pytest.raises(StartError):
            async with advisory.only_server_of_database(parse_url(url)):
                pass


@pytest.mark.usefixtures("_impatient")
async def test_a_lost_lock_that_another_server_took_is_an_error_in_the_log(
    url: str, postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said until one of the two is stopped."""
    message = "another server has taken the database: stop one of the two at once"
    async with advisory.only_server_of_database(parse_url(url)):
        while True:  # whoever comes first
            await asyncio.to_thread(postgres.disconnect, url)
            try:
                async with advisory.only_server_of_database(parse_url(url)), asyncio.timeout(60):
                    while caplog.messages.count(message) < 2:
                        await asyncio.sleep(0.01)
                return
            except StartError:
                continue
