from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.server.pictures import encoded
from tests.server.running import Server, serving

pytestmark = pytest.mark.usefixtures("database_url")

KEY = {"Idempotency-Key": "order-1"}
SECOND_NS = 1_000_000_000


def form(boundary: str, **fields: str) -> bytes:
    parts = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    )
    return ("".join(parts) + f"--{boundary}--\r\n").encode()


async def post_form(server: Server, boundary: str, **fields: str) -> httpx.Response:
    headers = KEY | {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return await server.client.post("/v1/videos", content=form(boundary, **fields), headers=headers)


async def test_the_same_request_answers_the_same_job(server: Server) -> None:
    """Once queued, then as it is later; the seed that was drawn is drawn once."""
    first = await server.post(headers=KEY)
    assert first.status_code == 200
    assert "idempotent-replayed" not in first.headers
    await server.finish()
    second = await server.post(headers=KEY)
    assert second.status_code == 200
    assert second.headers["idempotent-replayed"] == "true"
    assert (second.json()["id"], second.json()["seed"]) == (first.json()["id"], first.json()["seed"])
    assert (second.json()["status"], second.json()["progress"]) == ("completed", 100)
    assert await server.count() == 1


async def test_both_encodings_and_any_boundary_are_the_same_request(server: Server) -> None:
    """JSON, a form, the form with another boundary and order: one job."""
    as_json = await server.post(headers=KEY, seed=0, fps=24, size="100x60")
    fields = {"prompt": "a red circle", "seed": "0", "fps": "24", "size": "100x60"}
    answers = [
        as_json,
        await post_form(server, "one", **fields),
        await post_form(server, "two", **dict(reversed(fields.items()))),
    ]
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await server.count() == 1


@pytest.mark.parametrize(
    "change",
    [{"prompt": "a blue circle"}, {"seed": 0}, {"n": 1}, {"negative_prompt": ""}, {"output_format": "webm"}],
    ids=str,
)
async def test_another_request_with_the_key_is_refused(server: Server, change: dict[str, Any]) -> None:
    """Each field counts, also where it says the default; the answer must not be retried."""
    await server.post(headers=KEY)
    reused = await server.post(headers=KEY, **change)
    assert reused.status_code == 409
    assert reused.headers["x-should-retry"] == "false"
    error = reused.json()["error"]
    assert (error["code"], error["param"]) == ("idempotency_key_reused", "Idempotency-Key")
    assert await server.count() == 1


async def test_the_route_counts(server: Server) -> None:
    """The key of a job that was queued is not one of a request that waits; other mounts are the same."""
    first = await server.post(headers=KEY)
    assert (await server.post("/v1/videos/sync", headers=KEY)).status_code == 409
    for path in ("/openai/v1/videos", "/videos/", "/v1/videos/"):
        assert (await server.post(path, headers=KEY)).json()["id"] == first.json()["id"]


async def test_pictures_count_by_their_bytes(server: Server) -> None:
    """The same picture is the same request, another one is not; the first one's upload stays."""

    async def post(picture: bytes) -> httpx.Response:
        files = {"input_reference": ("upload", picture, "application/octet-stream")}
        data = {"prompt": "a red circle", "model": "both"}
        return await server.client.post("/v1/videos", data=data, files=files, headers=KEY)

    red, blue = (encoded(Image.new("RGB", (16, 16), colour), "PNG") for colour in ("red", "blue"))
    first, again, other = await post(red), await post(red), await post(blue)
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 409)
    assert again.json()["id"] == first.json()["id"]
    uploads = [path.name for path in server.services.settings.uploads_dir.iterdir()]
    assert uploads == [first.json()["id"]]


async def test_many_at_once_make_one_job(server: Server) -> None:
    """Twenty requests with one key, in both encodings: one job, and all are told of it."""
    fields = {"prompt": "a red circle", "seed": "3"}
    posts = [server.post(headers=KEY, seed=3) for _ in range(10)]
    posts += [post_form(server, f"b{number}", **fields) for number in range(10)]
    answers = await asyncio.gather(*posts)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await server.count() == 1
    assert len(server.services.dispatcher.roster.queue) <= 1


async def test_keys_without_each_other(server: Server) -> None:
    """Two keys, and none, are three jobs of one request."""
    ids = {
        (await server.post(headers=headers)).json()["id"]
        for headers in (KEY, {"Idempotency-Key": "order-2"}, {})
    }
    assert len(ids) == 3


async def test_what_is_refused_is_not_remembered(server: Server) -> None:
    """A key of a bad request is free for the good one."""
    assert (await server.post(headers=KEY, seed=-1)).status_code == 400
    assert (await server.post(headers=KEY, model="sora-9")).status_code == 404
    assert (await server.post(headers=KEY, seed=1)).status_code == 200


async def test_a_repetition_needs_no_room_in_the_queue(tmp_path: Path) -> None:
    """With a full queue new requests are told to wait, and known ones are answered."""
    async with serving(tmp_path, queue={"max_jobs": 1}) as server:
        await server.post()
        await server.begun()
        first = await server.post(headers=KEY)
        assert (await server.post(headers={"Idempotency-Key": "order-2"})).status_code == 429
        assert (await server.post(headers=KEY)).json()["id"] == first.json()["id"]


async def test_keys_outlive_the_server(tmp_path: Path) -> None:
    """After a restart the same request answers the same job."""
    async with serving(tmp_path) as server:
        first = await server.post(headers=KEY)
    async with serving(tmp_path) as server:
        again = await server.post(headers=KEY)
        assert again.json()["id"] == first.json()["id"]
        assert (await server.post(headers=KEY, seed=1)).status_code == 409


async def test_a_deleted_job_is_not_made_again(server: Server) -> None:
    """A repetition that comes late is told that the video is gone."""
    first = await server.post(headers=KEY)
    await server.client.delete(f"/v1/videos/{first.json()['id']}")
    again = await server.post(headers=KEY)
    assert (again.status_code, again.json()["error"]["code"]) == (404, "video_not_found")
    assert await server.count() == 0


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\xe9", "a\tb"], ids=["empty", "long", "latin-1", "tab"])
async def test_keys_are_bounded(server: Server, key: str) -> None:
    """1 to 255 printable ASCII characters; the error names the header."""
    headers = [(b"idempotency-key", key.encode("latin-1")), (b"content-type", b"application/json")]
    refused = await server.client.post("/v1/videos", content=b'{"prompt": "x"}', headers=headers)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert (await server.post(headers={"Idempotency-Key": "x" * 255})).status_code == 200


async def test_two_keys_on_one_request_are_refused(server: Server) -> None:
    """Which of them should count is not guessed."""
    headers = [(b"idempotency-key", b"a"), (b"idempotency-key", b"b"), (b"content-type", b"application/json")]
    refused = await server.client.post("/v1/videos", content=b'{"prompt": "x"}', headers=headers)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")


async def test_waiting_requests_share_one_job(server: Server) -> None:
    """The repetition waits for the job of the first request, and gets the same file."""
    first = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
    job_id = await server.begun()
    again = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
    await server.waited_for(2)
    await server.finish()
    later = await server.post("/v1/videos/sync", headers=KEY)
    for answer in (await first, await again, later):
        assert (answer.status_code, answer.content, answer.headers["x-video-id"]) == (200, b"video", job_id)
    assert await server.count() == 1


async def test_a_failure_is_repeated(server: Server) -> None:
    """A job that failed by itself is the answer to the repetition too."""
    first = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
    server.engine.fail(await server.begun(), "out_of_memory")
    again = await server.post("/v1/videos/sync", headers=KEY)
    for answer in (await first, again):
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "out_of_memory")
        assert answer.headers["x-should-retry"] == "false"
    assert await server.count() == 1


async def test_a_client_that_comes_again_keeps_its_job(server: Server) -> None:
    """The connection of the first request breaks after the second has come: the job goes on."""
    first = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
    await server.begun()
    again = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
    await server.waited_for(2)
    first.cancel()
    await server.waited_for(1)
    await server.finish()
    assert (await again).content == b"video"
    assert server.engine.cancelled == []


async def test_a_client_that_comes_back_gets_a_video(server: Server) -> None:
    """Its first job was cancelled when it went away; the repetition makes the video again."""
    first = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
    lost = await server.begun()
    await server.waited_for(1)
    first.cancel()
    again = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
    made = await server.finish(2)
    assert (await again).headers["x-video-id"] == made
    assert server.engine.cancelled == [lost]
    assert (await server.post("/v1/videos/sync", headers=KEY)).headers["x-video-id"] == made


async def test_a_request_that_a_restart_broke_is_made_again(tmp_path: Path) -> None:
    """The client is told that the server stops, and asks the next one."""
    async with serving(tmp_path) as server:
        broken = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
        lost = await server.begun()
        await server.services.dispatcher.stop()
        assert (await broken).status_code == 503
    async with serving(tmp_path) as server:
        again = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY))
        assert await server.finish() != lost
        assert (await again).content == b"video"


async def test_a_repeated_stream_is_answered_with_the_whole_file(server: Server) -> None:
    """Fragments go to the first request alone; whoever repeats it gets the finished file."""
    first = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY, stream=True))
    await server.begun()
    again = asyncio.create_task(server.post("/v1/videos/sync", headers=KEY, stream=True))
    await server.waited_for(2)
    await server.finish()
    assert (await again).content == b"video"
    assert (await first).status_code == 200
    assert await server.count() == 1
