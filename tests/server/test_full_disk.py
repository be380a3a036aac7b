"""A disk that is really full or read-only: what is told, what stays, and that nothing has to be restarted."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NoReturn

import httpx
import pytest
from PIL import Image
from sqlalchemy.exc import OperationalError

from server.store import Store
from tests.disks import Disk
from tests.encoding.clips import describe, encode, smooth
from tests.server.pictures import encoded
from tests.server.receiver import receiving
from tests.server.running import Server, serving
from tests.server.scripted import new_job
from tests.server.test_webhooks import sending, webhook

pytestmark = pytest.mark.mounts

LONG_PROMPT = "a red circle " * 2000


def refused(answer: httpx.Response) -> None:
    """507 in the envelope, which clients try again after a while; no path in it."""
    assert (answer.status_code, answer.headers["retry-after"]) == (507, "10"), answer.text
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("server_error", None, "storage_failed")
    assert "/" not in error["message"]
    assert "x-should-retry" not in answer.headers


def uri(data: bytes) -> dict[str, str]:
    """A reference to a picture."""
    return {"image_url": f"data:image/png;base64,{base64.b64encode(data).decode()}"}


def noise(side: int) -> bytes:
    """A PNG that cannot be made smaller."""
    return encoded(Image.frombytes("RGB", (side, side), os.urandom(side * side * 3)), "PNG")


async def said(caplog: pytest.LogCaptureFixture, message: str) -> None:
    """Wait for a line of the log."""
    async with asyncio.timeout(10):
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
    job_id = await server.begun()
    async with asyncio.timeout(10):
        while (await server.services.store.get(job_id)).status != "in_progress":
            await asyncio.sleep(0.005)
    return job_id


async def reads_work(server: Server, job_id: str) -> None:
    """Whatever looks at a finished video needs no room."""
    for path in ("/live", "/health", "/metrics", "/v1/models", "/v1/videos", f"/v1/videos/{job_id}"):
        answer = await server.client.get(path)
        assert answer.status_code == 200, (path, answer.text)
    content = await server.client.get(f"/v1/videos/{job_id}/content")
    assert (content.status_code, content.content) == (200, b"video")


async def test_all_on_one_disk(disk: Disk) -> None:
    """Nothing is taken, nothing is left of what was refused, reads go on, and room is all that it takes."""
    async with serving(disk.path / "data") as server:
        await server.post()
        job_id = await server.finish()
        disk.fill()
        refused(await server.post())
        refused(await server.post("/v1/videos/sync"))
        refused(await server.post(f"/v1/videos/{job_id}/remix"))
        await reads_work(server, job_id)
        assert await server.count() == 1
        assert server.services.artifacts.ids() == [job_id]
        assert len(server.services.dispatcher.roster.queue) == 0
        disk.clear()
        assert (await server.post()).status_code == 200
        await server.finish(2)


async def test_a_read_only_disk(disk: Disk) -> None:
    """As after an error of the file system: the server says so, and goes on when it is mounted again."""
    artifacts = disk.path / "artifacts"
    async with serving(disk.path.parent / "data", artifacts={"dir": artifacts}) as server:
        await server.post()
        job_id = await server.finish()
        disk.read_only(True)
        refused(await server.post())
        await reads_work(server, job_id)
        disk.read_only(False)
        assert (await server.post()).status_code == 200
        assert await server.count() == 2


async def test_room_must_be_left(disk: Disk) -> None:
    """As much as the operator says."""
    sections = {"artifacts": {"min_free_bytes": 20 * 2**20}}
    async with serving(disk.path / "data", **sections) as server:
        refused(await server.post())
        assert server.services.artifacts.ids() == []


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
        async with asyncio.timeout(10):
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
            async with asyncio.timeout(10):
                await live.ended.wait()
        for job_id in jobs:
            assert (await server.client.get(f"/v1/videos/{job_id}")).json()["error"]["code"] == "cancelled"
            assert (await server.client.delete(f"/v1/videos/{job_id}")).status_code == 200
        assert jobs[1] not in server.engine.begun


async def test_events_are_delivered_after_all(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A sender whose database is full goes on when there is room."""
    monkeypatch.setattr("server.webhooks.sender.TROUBLE_PAUSE_S", 0.02)
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


async def test_a_waiting_request_whose_file_finds_no_room(disk: Disk) -> None:
    """507 for it too, but no client is to make the video again by itself."""
    async with serving(disk.path / "data") as server:
        waiting = asyncio.create_task(server.post("/v1/videos/sync"))
        server.engine.fail(await server.begun(), "storage_failed", "the server could not store the file")
        answer = await waiting
        assert (answer.status_code, answer.headers["x-should-retry"]) == (507, "false")
        assert answer.json()["error"]["code"] == "storage_failed"


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


async def test_a_deletion_makes_room(disk: Disk) -> None:
    """A video that fills the disk can be deleted, though the database has no room to note it at first."""
    async with serving(disk.path / "data", queue={"max_jobs": 1000}) as server:
        await server.post()
        job_id = await server.finish()
        (disk.path / "ballast").touch()
        disk.fill()
        (disk.path / "ballast").rename(server.services.artifacts.file(job_id, "spritesheet.jpg"))
        refused(await server.post())
        assert (await server.client.delete(f"/v1/videos/{job_id}")).status_code == 200
        assert (await server.client.get(f"/v1/videos/{job_id}")).status_code == 404
        assert (await server.post()).status_code == 200


async def test_files_expire_on_a_full_disk(disk: Disk) -> None:
    """By age, which makes the room that the database may lack."""
    async with serving(disk.path / "data", artifacts={"ttl_s": 1}) as server:
        await server.post()
        job_id = await server.finish()
        disk.fill()
        async with asyncio.timeout(20):
            while server.services.artifacts.ids():
                await asyncio.sleep(0.02)
        content = await server.client.get(f"/v1/videos/{job_id}/content")
        assert content.json()["error"]["code"] == "video_expired"


@pytest.mark.parametrize("where", ["uploads", "spool"])
async def test_an_upload_that_finds_no_room(disk: Disk, where: str) -> None:
    """Wherever on its way to the disk it is; it is not called the client's fault, and leaves nothing."""
    data, picture = disk.path.parent / "data", noise(600)
    data.mkdir()
    (data / where).symlink_to(disk.path)
    async with serving(data) as server:
        disk.fill()
        request = {"data": {"prompt": "x", "model": "picture"}, "files": {"input_reference": picture}}
        before = sorted(disk.path.iterdir())
        refused(await server.client.post("/v1/videos", **request))  # type: ignore[arg-type] # no typed dictionary
        refused(await server.post(model="picture", input_reference=uri(picture)))
        assert sorted(disk.path.iterdir()) == before
        assert (await server.count(), server.services.artifacts.ids()) == (0, [])
        disk.clear()
        answer = await server.client.post("/v1/videos", **request)  # type: ignore[arg-type] # as above
        assert answer.status_code == 200, answer.text


async def test_a_preview_that_finds_no_room(disk: Disk) -> None:
    """507, and it is drawn when there is room again; the video itself is served all the while."""
    artifacts = disk.path / "artifacts"
    async with serving(disk.path.parent / "data", artifacts={"dir": artifacts}) as server:
        await server.post(num_frames=9, size="48x32")
        job_id = await server.finish()
        path = server.services.artifacts.file(job_id, "video.mp4")
        clip = smooth(9, 32, 48)
        # Made elsewhere: when a job has ended, the server clears its folder of what is half written.
        shutil.copy(encode(describe(disk.path.parent / "real.mp4", clip), clip).path, path)
        disk.fill()
        url = f"/v1/videos/{job_id}/content"
        for variant in ("thumbnail", "spritesheet"):
            refused(await server.client.get(f"{url}?variant={variant}"))
        assert (await server.client.get(url)).status_code == 200
        assert [file.name for file in path.parent.iterdir()] == ["video.mp4"]
        disk.clear()
        assert (await server.client.get(f"{url}?variant=thumbnail")).status_code == 200
