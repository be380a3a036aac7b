"""Files as answers, through a real application."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from email.parser import BytesParser
from email.utils import formatdate
from pathlib import Path

import httpx
import psutil
import pytest
from anyio import to_thread
from fastapi import FastAPI, Request, Response

from server import error_answers
from server.downloads import CHUNK_BYTES, Download, send

MODIFIED = 1_800_000_000
DATE = formatdate(MODIFIED, usegmt=True)
DATA = bytes(range(256)) * 4
TAG = '"video_1-video-0-1024"'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "video_1" / "video.mp4"
    path.parent.mkdir()
    path.write_bytes(DATA)
    return path


@pytest.fixture
async def client(file: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = FastAPI()
    error_answers.install(app)

    @app.api_route("/file", methods=["GET", "HEAD", "POST"])
    async def answer(request: Request) -> Response:
        download = Download(file, "video_1-video-0", MODIFIED, "video/mp4", "video_1.mp4")
        return await send(download, request, {"X-Video-Id": "video_1"})

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as opened:
        yield opened
    assert str(file) not in {opened.path for opened in psutil.Process().open_files()}


async def test_the_whole_file(client: httpx.AsyncClient) -> None:
    """With all that a browser needs to save, resume and keep it."""
    response = await client.get("/file")
    assert (response.status_code, response.content) == (200, DATA)
    assert dict(response.headers) == {
        "x-video-id": "video_1",
        "content-type": "video/mp4",
        "content-length": "1024",
        "content-disposition": 'attachment; filename="video_1.mp4"',
        "accept-ranges": "bytes",
        "etag": TAG,
        "last-modified": DATE,
        "cache-control": "private, no-cache",
    }


@pytest.mark.parametrize(
    ("wanted", "first", "last"),
    [("bytes=0-1", 0, 1), ("bytes=1000-", 1000, 1023), ("bytes=-24", 1000, 1023), ("bytes=5-9999", 5, 1023)],
)
async def test_a_part_of_the_file(client: httpx.AsyncClient, wanted: str, first: int, last: int) -> None:
    """206 with exactly these bytes, and where they lie."""
    response = await client.get("/file", headers={"Range": wanted})
    assert (response.status_code, response.content) == (206, DATA[first : last + 1])
    assert response.headers["content-range"] == f"bytes {first}-{last}/1024"
    assert response.headers["content-length"] == str(last - first + 1)
    assert (response.headers["etag"], response.headers["content-type"]) == (TAG, "video/mp4")


async def test_several_parts(client: httpx.AsyncClient) -> None:
    """As a multipart body whose parts say where they lie, read by another parser."""
    response = await client.get("/file", headers={"Range": "bytes=0-4, 300-302, -2"})
    kind = response.headers["content-type"]
    assert response.status_code == 206
    assert kind.startswith("multipart/byteranges; boundary=")
    assert response.headers["content-length"] == str(len(response.content))
    whole = BytesParser().parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + response.content)
    parts = list(whole.walk())[1:]
    assert [(part["content-type"], part["content-range"]) for part in parts] == [
        ("video/mp4", "bytes 0-4/1024"),
        ("video/mp4", "bytes 300-302/1024"),
        ("video/mp4", "bytes 1022-1023/1024"),
    ]
    assert [part.get_payload(decode=True) for part in parts] == [DATA[:5], DATA[300:303], DATA[-2:]]


async def test_bytes_that_are_not_there(client: httpx.AsyncClient) -> None:
    """416 in the envelope, with the size that would have been right."""
    response = await client.get("/file", headers={"Range": "bytes=1024-"})
    assert (response.status_code, response.headers["content-range"]) == (416, "bytes */1024")
    assert response.json()["error"]["code"] == "range_not_satisfiable"


@pytest.mark.parametrize("unusable", ["lines=0-1", "bytes=5-1", "bytes=x", "nonsense"])
async def test_a_range_without_meaning_is_no_range(client: httpx.AsyncClient, unusable: str) -> None:
    """The whole file, as the standard demands."""
    response = await client.get("/file", headers={"Range": unusable})
    assert (response.status_code, response.content) == (200, DATA)


@pytest.mark.parametrize("state", [TAG, DATE])
async def test_a_part_of_the_state_that_the_client_has(client: httpx.AsyncClient, state: str) -> None:
    """`If-Range` names it, by its tag or its date."""
    response = await client.get("/file", headers={"Range": "bytes=0-1", "If-Range": state})
    assert (response.status_code, response.content) == (206, DATA[:2])


@pytest.mark.parametrize(
    "state", ['"other"', f"W/{TAG}", TAG.strip('"'), formatdate(MODIFIED - 1, usegmt=True)]
)
async def test_no_part_of_another_state(client: httpx.AsyncClient, state: str) -> None:
    """The whole file instead: a part would not fit to what the client has; nor is a range refused then."""
    for wanted in ("bytes=0-1", "bytes=5000-"):
        response = await client.get("/file", headers={"Range": wanted, "If-Range": state})
        assert (response.status_code, response.content) == (200, DATA)


@pytest.mark.parametrize(
    "condition",
    [
        {"If-None-Match": TAG},
        {"If-None-Match": f'"other", W/{TAG}'},
        {"If-None-Match": "*"},
        {"If-Modified-Since": DATE},
        {"If-None-Match": TAG, "Range": "bytes=0-1"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_what_the_client_has_is_not_sent_again(
    client: httpx.AsyncClient, method: str, condition: dict[str, str]
) -> None:
    """304 without a body, with the validators."""
    response = await client.request(method, "/file", headers=condition)
    assert (response.status_code, response.content) == (304, b"")
    assert (response.headers["etag"], response.headers["last-modified"]) == (TAG, DATE)
    assert "content-type" not in response.headers


@pytest.mark.parametrize(
    "condition",
    [
        {"If-None-Match": '"other"'},
        {"If-Modified-Since": formatdate(MODIFIED - 1, usegmt=True)},
        {"If-Modified-Since": "yesterday"},
        {"If-None-Match": '"other"', "If-Modified-Since": DATE},
    ],
)
async def test_another_state_is_sent(client: httpx.AsyncClient, condition: dict[str, str]) -> None:
    """The tag has the last word over the date, and a date that is none says nothing."""
    assert (await client.get("/file", headers=condition)).content == DATA


@pytest.mark.parametrize("headers", [{}, {"Range": "bytes=-5"}, {"Range": "bytes=0-1,5-6"}])
async def test_a_head_is_the_answer_without_its_body(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    """Same status, same headers; only the boundary of several parts is drawn anew."""
    head = await client.head("/file", headers=headers)
    full = await client.get("/file", headers=headers)
    assert (head.status_code, head.content) == (full.status_code, b"")
    for told in (head, full):
        told.headers["content-type"] = told.headers["content-type"].partition(" boundary=")[0]
    assert head.headers == full.headers


async def test_conditions_are_not_for_other_methods(client: httpx.AsyncClient) -> None:
    """The answer to a POST that waited for its video is always the whole file."""
    response = await client.post("/file", headers={"Range": "bytes=0-1", "If-None-Match": "*"})
    assert (response.status_code, response.content) == (200, DATA)


async def test_the_tag_does_not_depend_on_the_clock_of_the_disk(
    client: httpx.AsyncClient, file: Path
) -> None:
    """A copy that was put back from a backup is the same file."""
    before = (await client.head("/file")).headers
    os.utime(file, (1, 1))
    assert (await client.head("/file")).headers == before


async def test_a_file_that_is_gone(client: httpx.AsyncClient, file: Path) -> None:
    """404 with a code of its own, which names no path."""
    await to_thread.run_sync(file.unlink)
    response = await client.get("/file")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "file_missing")
    assert str(file.parent.parent) not in response.text


async def test_a_large_file_in_pieces(client: httpx.AsyncClient, file: Path) -> None:
    """Longer than what is read at once, and no multiple of it; an empty file too."""
    data = os.urandom(2 * CHUNK_BYTES + 7)
    await to_thread.run_sync(file.write_bytes, data)
    assert (await client.get("/file")).content == data
    wanted = {"Range": f"bytes=3-{CHUNK_BYTES + 3}"}
    assert (await client.get("/file", headers=wanted)).content == data[3 : CHUNK_BYTES + 4]
    await to_thread.run_sync(file.write_bytes, b"")
    empty = await client.get("/file")
    assert (empty.status_code, empty.content, empty.headers["content-length"]) == (200, b"", "0")
