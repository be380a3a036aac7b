"""Pictures of a video, and files on their way to the client, through the real server."""

from __future__ import annotations

import io
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image

from tests.e2e.requests import SMALL, make
from tests.encoding.judge import watch
from tests.serving import LIGHT, Served, finished, start


def made(client: httpx.Client, **fields: Any) -> str:
    """The URL of a completed video's content."""
    created = client.post("/v1/videos", json=SMALL | fields).raise_for_status().json()
    assert finished(client, created["id"])["status"] == "completed"
    return f"/v1/videos/{created['id']}/content"


@pytest.mark.parametrize("output_format", ["mp4", "webm", "pt", "safetensors"])
def test_a_thumbnail_of_every_format(client: httpx.Client, output_format: str) -> None:
    """The middle frame as a WebP of the video's own size, small as it is."""
    url = made(client, output_format=output_format)
    response = client.get(url, params={"variant": "thumbnail"})
    assert (response.status_code, response.headers["content-type"]) == (200, "image/webp"), response.text
    picture = Image.open(io.BytesIO(response.content))
    assert (picture.format, picture.size) == ("WEBP", (64, 32))
    assert ".webp" in response.headers["content-disposition"]


def test_a_thumbnail_shows_the_video(client: httpx.Client) -> None:
    """Its colours are those of the middle frame, but for compression."""
    url = made(client)
    middle = watch(client.get(url).content).rgb[2]
    shown = Image.open(io.BytesIO(client.get(url, params={"variant": "thumbnail"}).content)).convert("RGB")
    mean = [sum(channel) / len(channel) for channel in zip(*shown.get_flattened_data(), strict=True)]
    assert mean == pytest.approx(middle.reshape(-1, 3).mean(axis=0).tolist(), abs=4)


def test_a_spritesheet_and_its_grid(client: httpx.Client) -> None:
    """Five frames are five tiles in one row; headers say so."""
    response = client.get(made(client), params={"variant": "spritesheet"})
    assert (response.status_code, response.headers["content-type"]) == (200, "image/jpeg")
    columns, rows, tiles = (
        int(response.headers[f"x-spritesheet-{name}"]) for name in ("columns", "rows", "tiles")
    )
    assert (columns, rows, tiles) == (5, 1, 5)
    assert Image.open(io.BytesIO(response.content)).size == (5 * 64, 32)


def test_each_video_of_a_request_has_its_own_pictures(client: httpx.Client) -> None:
    """By its index; one that is not there is named, and so is a variant that does not exist."""
    url = made(client, n=2)
    first, second = (client.get(url, params={"variant": "thumbnail", "index": index}) for index in (0, 1))
    assert first.content != second.content
    assert first.headers["etag"] != second.headers["etag"]
    assert client.get(url, params={"variant": "thumbnail", "index": 2}).json()["error"]["param"] == "index"
    assert client.get(url, params={"variant": "poster"}).json()["error"]["param"] == "variant"


@pytest.mark.parametrize("variant", ["video", "thumbnail", "spritesheet"])
def test_ranges_and_validators_of_every_variant(client: httpx.Client, variant: str) -> None:
    """A head without a body, the first two bytes, a range only while it is the same file, and 304."""
    url, params = made(client), {"variant": variant}
    whole = client.get(url, params=params)
    etag = whole.headers["etag"]
    head = client.head(url, params=params)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.content))
    ranged = {"Range": "bytes=0-1"}
    for extra, expected in (({}, 206), ({"If-Range": etag}, 206), ({"If-Range": '"other"'}, 200)):
        part = client.get(url, params=params, headers=ranged | extra)
        assert part.status_code == expected
        assert part.content == (whole.content[:2] if expected == 206 else whole.content)
    assert client.get(url, params=params, headers={"Range": "bytes=-3"}).content == whole.content[-3:]
    assert client.get(url, params=params, headers={"If-None-Match": etag}).status_code == 304


def test_a_file_that_vanished(client: httpx.Client, served: Served) -> None:
    """404 with a code of its own for every form of it, never a 500."""
    url = made(client, response_format="video_path")
    (served.artifacts / url.split("/")[3] / "video.mp4").unlink()
    answers = [client.get(url, params={"variant": variant}) for variant in ("video", "thumbnail")]
    answers.append(client.get(url, headers={"Accept": "application/json"}))
    assert [(answer.status_code, answer.json()["error"]["code"]) for answer in answers] == [
        (404, "file_missing")
    ] * 3


def test_json_only_for_who_prefers_it(client: httpx.Client) -> None:
    """`*/*` and a lower quality for JSON get the file."""
    url = made(client, response_format="video_path")
    for accept, kind in (
        ("application/json", "application/json"),
        ("application/json, */*;q=0.1", "application/json"),
        ("*/*", "video/mp4"),
        ("video/mp4, application/json;q=0.5", "video/mp4"),
    ):
        assert client.get(url, headers={"Accept": accept}).headers["content-type"] == kind, accept


def test_a_download_outlives_a_delete(client: httpx.Client, served: Served) -> None:
    """A slow reader of a file larger than all buffers gets every byte of it."""
    url, size = made(client), 14_000_000
    (served.artifacts / url.split("/")[3] / "video.mp4").write_bytes(bytes(size))
    assert int(client.head(url).headers["content-length"]) == size
    address = urlsplit(served.url)
    assert address.hostname is not None
    assert address.port is not None
    with socket.create_connection((address.hostname, address.port)) as reader:
        reader.sendall(f"GET {url} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        received = len(reader.recv(1024))
        assert client.delete(url.removesuffix("/content")).status_code == 200
        assert not (served.artifacts / url.split("/")[3]).exists()
        while piece := reader.recv(2**20):
            received += len(piece)
    assert received > size  # the headers as well


def test_an_etag_outlives_a_restart(tmp_path: Path) -> None:
    """The same file has the same validator from the next server, whatever its time of change."""
    first = start(tmp_path / "data", **LIGHT)
    with first.client() as client:
        url = made(client)
        before = client.get(url).headers["etag"]
    assert first.stop() == 0
    (first.artifacts / url.split("/")[3] / "video.mp4").touch()
    second = start(first.data, **LIGHT)
    with second.client() as client:
        assert client.get(url).headers["etag"] == before
        assert client.get(url, headers={"If-None-Match": before}).status_code == 304
    assert second.stop() == 0


def test_a_stream_begins_while_later_chunks_are_still_decoded(client: httpx.Client, tmp_path: Path) -> None:
    """Its first picture is there while the job is in progress."""
    seen_in_time = tmp_path / "seen"
    fields = SMALL | {"prompt": f"fault:held={seen_in_time}@decode:25", "num_frames": 49, "stream": True}
    with client.stream("POST", "/v1/videos/sync", json=fields) as response:
        video_id, seen = response.headers["x-video-id"], b""
        pieces = response.iter_raw()
        while b"moof" not in seen:
            seen += next(pieces)
        job = client.get(f"/v1/videos/{video_id}").json()
        assert (job["status"], job["stage"]) == ("in_progress", "decode")
        seen_in_time.touch()
        seen += b"".join(pieces)
    assert len(watch(seen).times) == 49


def test_a_stream_whose_job_is_cancelled_breaks_off(client: httpx.Client, served: Served) -> None:
    """The client learns that it has not got the whole, and the log holds no traceback."""
    paused = {"prompt": "fault:paused=/nowhere/never@decode:25", "num_frames": 49}
    with client.stream("POST", "/v1/videos/sync", json=SMALL | paused | {"stream": True}) as response:
        pieces = response.iter_raw()
        next(pieces)
        client.post(f"/v1/videos/{response.headers['x-video-id']}/cancel").raise_for_status()
        with pytest.raises(httpx.RemoteProtocolError):
            list(pieces)
    make(client)  # what the server does with the broken stream comes before this
    assert "StreamBroken" not in served.log.read_text()
    assert "Traceback" not in served.log.read_text()
