"""A disk that is really full or read-only: what is told, what stays, and that nothing has to be restarted."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import time

import pytest
from PIL import Image

from tests.disks import Disk
from tests.encoding.clips import describe, encode, smooth
from tests.server.pictures import encoded
from tests.server.running import serving
from tests.server.shortage import reads_work, refused

pytestmark = pytest.mark.mounts


def uri(data: bytes) -> dict[str, str]:
    """A reference to a picture."""
    return {"image_url": f"data:image/png;base64,{base64.b64encode(data).decode()}"}


def noise(side: int) -> bytes:
    """A PNG that cannot be made smaller."""
    return encoded(Image.frombytes("RGB", (side, side), os.urandom(side * side * 3)), "PNG")


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


async def test_a_waiting_request_whose_file_finds_no_room(disk: Disk) -> None:
    """507 for it too, but no client is to make the video again by itself."""
    async with serving(disk.path / "data") as server:
        waiting = asyncio.create_task(server.post("/v1/videos/sync"))
        server.engine.fail(await server.begun(), "storage_failed", "the server could not store the file")
        answer = await waiting
        assert (answer.status_code, answer.headers["x-should-retry"]) == (507, "false")
        assert answer.json()["error"]["code"] == "storage_failed"


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


async def test_files_expire_on_a_full_disk(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """By age, which makes the room that the database may lack."""
    async with serving(disk.path / "data", artifacts={"ttl_s": 3600}) as server:
        await server.post()
        job_id = await server.finish()
        disk.fill()
        later = time.time_ns() + 3601 * 10**9
        monkeypatch.setattr(server.services.keeper, "_now", lambda: later)
        monkeypatch.setattr("server.results.time.time_ns", lambda: later)
        await server.services.keeper.round()
        assert server.services.artifacts.ids() == []
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
