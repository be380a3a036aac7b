"""What is answered about a video whose files are kept no longer."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message

from server.results import file_response
from tests.server.pictures import encoded, split
from tests.server.running import Server, serving


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async with serving(tmp_path / "data", artifacts={"expose_paths": True}) as running:
        yield running


def picture() -> dict[str, str]:
    """A reference."""
    data = base64.b64encode(encoded(split(), "PNG")).decode()
    return {"image_url": f"data:image/png;base64,{data}"}


async def expired(server: Server, count: int = 1) -> str:
    """The id of job number `count`, finished and expired; its file still lies there."""
    job_id = await server.finish(count)
    await server.services.store.expire(job_id, time.time_ns() // 1000)
    return job_id


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("query", ["", "?variant=thumbnail", "?variant=spritesheet"])
async def test_the_content_is_gone(server: Server, query: str, deleted: bool) -> None:
    """From that moment on, deleted so far or not; the code and the time are told."""
    await server.post()
    job_id = await expired(server)
    if deleted:
        await server.services.keeper.round()
        server.services.artifacts.remove(job_id)
    video = (await server.client.get(f"/v1/videos/{job_id}")).json()
    told = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(video["expires_at"]))
    for headers in ({}, {"Range": "bytes=0-1"}, {"If-None-Match": "*"}):
        answer = await server.client.get(f"/v1/videos/{job_id}/content{query}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "video_expired")
        assert told in answer.json()["error"]["message"]
    assert (await server.client.head(f"/v1/videos/{job_id}/content{query}")).status_code == 404


async def test_the_record_stays(server: Server) -> None:
    """It was completed, and is listed."""
    await server.post()
    job_id = await expired(server)
    video = (await server.client.get(f"/v1/videos/{job_id}")).json()
    assert (video["status"], video["progress"], video["error"]) == ("completed", 100, None)
    assert abs(video["expires_at"] - time.time()) < 60
    assert (await server.client.get("/v1/videos")).json()["data"] == [video]


@pytest.mark.parametrize("form", ["video_bytes", "video_path", "b64_json"])
async def test_a_repeated_request_learns_it_too(server: Server, form: str) -> None:
    """Whatever form of the result it asked for."""
    request = {"response_format": form, "headers": {"Idempotency-Key": "once"}}
    await server.post("/v1/videos", **request)
    job_id = await expired(server)
    await server.services.keys.prune()  # which takes no key that still holds
    accept = {"Accept": "application/json"}
    content = await server.client.get(f"/v1/videos/{job_id}/content", headers=accept)
    assert content.json()["error"]["code"] == "video_expired"
    again = await server.post("/v1/videos", **request)
    assert (again.status_code, again.json()["id"]) == (200, job_id)


@pytest.mark.parametrize("form", ["video_bytes", "video_path", "b64_json"])
async def test_a_repeated_waiting_request_learns_it(server: Server, form: str) -> None:
    """The answer is the file, and there is none any more."""
    request = {"response_format": form, "headers": {"Idempotency-Key": "once"}}
    first = asyncio.create_task(server.post("/v1/videos/sync", **request))
    await server.finish()
    assert (await first).status_code == 200
    await expired(server)
    again = await server.post("/v1/videos/sync", **request)
    assert (again.status_code, again.json()["error"]["code"]) == (404, "video_expired")


async def test_a_download_that_runs_gets_all_of_it(server: Server) -> None:
    """The file is open from before its expiry on."""
    await server.post()
    job_id = await server.finish()
    job = await server.services.store.get(job_id)
    request = Request({"type": "http", "method": "GET", "headers": []})
    response = await file_response(job, 0, request, server.services)
    server.services.artifacts.remove(await expired(server))
    body = b""

    async def send(message: Message) -> None:
        nonlocal body
        body += message.get("body", b"")

    await response(request.scope, asyncio.Event().wait, send)  # type: ignore[arg-type] # no client that leaves
    assert body == b"video"


async def test_a_remix_needs_no_file(server: Server) -> None:
    """It takes over parameters and pictures, which are kept as long as the record."""
    await server.post(model="picture", input_reference=picture())
    job_id = await expired(server)
    server.services.artifacts.remove(job_id)
    remix = await server.post(f"/v1/videos/{job_id}/remix", model="picture")
    assert (remix.status_code, remix.json()["remixed_from_video_id"]) == (200, job_id)


async def test_a_remix_without_the_picture_says_so(server: Server) -> None:
    """Where the bound of bytes took it; sent again it is used."""
    await server.post(model="picture", input_reference=picture())
    job_id = await expired(server)
    server.services.uploads.remove(job_id)
    remix = await server.post(f"/v1/videos/{job_id}/remix", model="picture")
    error = remix.json()["error"]
    assert (remix.status_code, error["code"], error["param"]) == (404, "video_expired", "input_reference")
    with_picture = {"model": "picture", "input_reference": picture()}
    assert (await server.post(f"/v1/videos/{job_id}/remix", **with_picture)).status_code == 200


async def test_a_forgotten_job_is_unknown(tmp_path: Path) -> None:
    """Everywhere, like an id that there never was."""
    async with serving(tmp_path / "data", store={"ttl_s": 1e-6}) as server:
        await server.post()
        job_id = await expired(server)
        await server.services.keeper.round()
        for method, path in (
            ("GET", ""),
            ("GET", "/content"),
            ("GET", "/events"),
            ("POST", "/cancel"),
            ("DELETE", ""),
        ):
            answer = await server.client.request(method, f"/v1/videos/{job_id}{path}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "video_not_found")
        remix = await server.post(f"/v1/videos/{job_id}/remix")
        assert (remix.status_code, remix.json()["error"]["code"]) == (404, "video_not_found")


async def gone_at(server: Server, path: str, code: str) -> float:
    """When the answer became 404 with this code; until then it is 200."""
    async with asyncio.timeout(60):
        while (answer := await server.client.get(path)).status_code == 200:
            await asyncio.sleep(0.01)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)
    return time.time()


async def test_expires_at_is_true(tmp_path: Path) -> None:
    """By the running server itself: served until that second, then refused and deleted, forgotten later."""
    kept = {"ttl_s": 1}
    async with serving(tmp_path / "data", artifacts=kept) as server:
        await server.post()
        url = f"/v1/videos/{await server.finish()}"
        video = (await server.client.get(url)).json()
        assert video["completed_at"] < video["expires_at"] <= video["completed_at"] + 2
        assert await gone_at(server, f"{url}/content", "video_expired") >= video["expires_at"]
        async with asyncio.timeout(60):
            while server.services.artifacts.ids():
                await asyncio.sleep(0.01)
        assert (await server.client.get(url)).json() == video
    # Another server: however long this machine took, the record was not to go before.
    async with serving(tmp_path / "data", artifacts=kept, store={"ttl_s": 2.5}) as server:
        assert await gone_at(server, url, "video_not_found") >= video["completed_at"] + 2.5


async def test_a_part_file_of_the_first_run_goes(server: Server) -> None:
    """A worker that was killed leaves one; it is gone when the second run has made the file."""
    await server.post()
    job_id = await server.begun()
    folder = server.services.artifacts.file(job_id, "video.mp4").parent
    (folder / ".video.mp4.1a2b3c4d.part").write_bytes(b"half")
    await server.finish()
    async with asyncio.timeout(60):
        while len(list(folder.iterdir())) > 1:
            await asyncio.sleep(0.005)
    assert (await server.client.get(f"/v1/videos/{job_id}/content")).content == b"video"
