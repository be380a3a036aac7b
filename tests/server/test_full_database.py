"""A database whose disk is really full: no job is taken, none is lost, and room is all that it needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import pytest
from sqlalchemy.exc import OperationalError

from server.store import Store
from server.webhooks import sender
from tests.disks import Disk
from tests.server.receiver import receiving
from tests.server.running import Server, serving
from tests.server.scripted import new_job
from tests.server.sender import FAST, sending, webhook
from tests.server.shortage import reads_work, refused

pytestmark = pytest.mark.mounts

LONG_PROMPT = "a red circle " * 2000


async def said(caplog: pytest.LogCaptureFixture, message: str) -> None:
    """Wait for a line of the log."""
    async with asyncio.timeout(60):
        while message not in caplog.text:
            await asyncio.sleep(0.005)


@asynccontextmanager
async def database_on(disk: Disk) -> AsyncIterator[Server]:
    """A server with its database on the disk, its files elsewhere, and a long queue."""
    url = f"sqlite:///{disk.path / 'jobs.sqlite3'}"
    async with serving(disk.path.parent / "data", store={"url": url}, queue={"max_jobs": 1000}) as server:
        yield server


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written is tried again at once."""
    monkeypatch.setattr("server.persist.FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr("server.persist.LONGEST_PAUSE_S", 0.02)


async def fill_the_database(server: Server) -> int:
    """Queue jobs, long and then short ones, until each is refused; returns how many were taken."""
    taken = 0
    for prompt in (LONG_PROMPT, "x"):
        while (answer := await server.post(prompt=prompt)).status_code == 200:
            taken += 1
        refused(answer)
    return taken


async def add_for_ever(store: Store, prompt: str) -> NoReturn:
    """Add jobs, as many as there is room for."""
    while True:
        await store.add(new_job(prompt=prompt))


async def running(server: Server) -> str:
    """The id of a job that the database knows to run."""
    await server.post()
    return await server.runs()


async def test_a_full_database_takes_no_job(disk: Disk) -> None:
    """No half of one either; it is read all the same, and takes the next one as soon as it can."""
    async with database_on(disk) as server:
        await server.post()
        job_id = await server.finish()
        disk.fill()
        taken = await fill_the_database(server)
        await reads_work(server, job_id)
        assert len(server.services.artifacts.ids()) == taken + 1
        assert await server.services.store.ids() == set(server.services.artifacts.ids())
        disk.clear()
        assert (await server.post()).status_code == 200


@pytest.mark.usefixtures("_impatient")
async def test_a_job_that_ends_meanwhile_is_not_lost(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    """Its files stand until the database can be told that they do; the same for one that failed."""
    async with database_on(disk) as server:
        done = await running(server)
        disk.fill()
        await fill_the_database(server)
        live = server.services.dispatcher.roster.live(done)
        assert live is not None
        server.engine.finish(done)
        await said(caplog, "the state of a job cannot be written, tried again")
        video = (await server.client.get(f"/v1/videos/{done}")).json()
        assert video["status"] == "in_progress"
        assert (await server.client.get(f"/v1/videos/{done}/content")).json()["error"]["code"] == (
            "video_not_ready"
        )
        disk.clear()
        async with asyncio.timeout(60):
            await live.ended.wait()
        content = await server.client.get(f"/v1/videos/{done}/content")
        assert (content.status_code, content.content) == (200, b"video")
        await server.post()
        await server.post()
        failed = await server.begun(2)
        server.engine.fail(failed, "out_of_memory")
        await server.finish(3)
        assert (await server.services.store.get(failed)).status == "failed"


@pytest.mark.usefixtures("_impatient")
async def test_a_cancelled_job_whose_end_cannot_be_written(disk: Disk) -> None:
    """It is stopped, and the client told that this is not on record; it is as soon as there is room."""
    async with database_on(disk) as server:
        jobs = [await running(server), (await server.post()).json()["id"]]
        disk.fill()
        await fill_the_database(server)
        for job_id in jobs:
            refused(await server.client.post(f"/v1/videos/{job_id}/cancel"))
            refused(await server.client.delete(f"/v1/videos/{job_id}"))
        assert server.engine.cancelled[0] == jobs[0]
        lives = [server.services.dispatcher.roster.live(job_id) for job_id in jobs]
        disk.clear()
        for live in lives:
            assert live is not None
            async with asyncio.timeout(60):
                await live.ended.wait()
        for job_id in jobs:
            assert (await server.client.get(f"/v1/videos/{job_id}")).json()["error"]["code"] == "cancelled"
            assert (await server.client.delete(f"/v1/videos/{job_id}")).status_code == 200
        assert jobs[1] not in server.engine.begun


async def test_events_are_delivered_after_all(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A sender whose database is full goes on when there is room."""
    monkeypatch.setattr(sender, "TROUBLE_PAUSE_S", 0.02)
    monkeypatch.setattr(sender, "LEASE_MARGIN_S", 0.1 - FAST.timeout_s)
    with receiving() as receiver:
        receiver.status = 500
        async with sending(disk.path, webhook(receiver.url)) as made:
            job_id = await made.end()
            await asyncio.to_thread(receiver.wait, 1)
            disk.fill()
            for prompt in (LONG_PROMPT, "x"):
                with pytest.raises(OperationalError, match="full"):
                    await add_for_ever(made.store, prompt)
            await said(caplog, "a round of webhook deliveries failed")
            receiver.status = 204
            disk.clear()
            await made.until(lambda: made.count("delivered") == 1)
        assert {received.event["data"]["id"] for received in receiver.received} == {job_id}


@pytest.mark.usefixtures("_impatient")
async def test_a_server_that_stops_with_a_full_database(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    """It does stop. The next one starts without room as well, and runs the job again when there is some."""
    async with database_on(disk) as server:
        job_id = await running(server)
        disk.fill()
        await fill_the_database(server)
        server.engine.finish(job_id)
        await said(caplog, "the state of a job cannot be written, tried again")
    assert "a job could not be put back" in caplog.text
    async with database_on(disk) as server:
        assert (await server.client.get(f"/v1/videos/{job_id}")).json()["status"] == "in_progress"
        refused(await server.post())
        disk.clear()
        assert await server.finish() == job_id
        assert (await server.services.store.get(job_id)).status == "completed"
