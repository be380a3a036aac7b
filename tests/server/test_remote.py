"""Reference files by URL: how much is fetched, what is no file, and which requests may name one."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest

from pipelines.base import ReferenceLimits
from server.errors import BadField, BadUrl, FieldTooLarge
from server.sections import UrlSettings
from tests.server.door import make_settings
from tests.server.films import film, sound
from tests.server.internet import Internet, fetch, ok, refused
from tests.server.pictures import encoded, split
from tests.server.running import serving


def chunked(*pieces: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (*pieces, b""))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body


@pytest.mark.parametrize(
    "page",
    [
        ok(b"x" * 1025),
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        chunked(b"x" * 1000, b"x" * 1000),
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5000,
    ],
)
async def test_a_file_that_is_too_large(internet: Internet, page: bytes) -> None:
    """As soon as it is announced, or has come."""
    internet.pages["/"] = page
    with pytest.raises(FieldTooLarge, match="1,024 bytes"):
        await fetch("http://public.example/", max_bytes=1024)


@pytest.mark.parametrize("page", [ok(b"x" * 1024), chunked(b"x" * 1000, b"x" * 24)])
async def test_exactly_as_many_bytes_as_allowed(internet: Internet, page: bytes) -> None:
    """Announced or not."""
    internet.pages["/"] = page
    assert await fetch("http://public.example/", max_bytes=1024) == b"x" * 1024


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", "the answer is 404, not 200"),
        (b"HTTP/1.1 204 No\r\n\r\n", "the answer is 204"),
        (b"HTTP/1.1 206 Part\r\nContent-Length: 1\r\n\r\nx", "the answer is 206"),
        (b"HTTP/1.1 304 Same\r\nContent-Length: 0\r\n\r\n", "the answer is 304"),
        (ok(gzip.compress(b"x" * 10**6), "Content-Encoding: gzip"), "compressed"),
        (ok(b"x", "Content-Encoding: br, gzip"), "compressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "before the end"),
        (chunked(b"xxx")[:-5], "before the end"),
        (chunked(*[b"x"] * 2000), "small pieces"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "before the end"),
        (b"", "before the end"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n", "before the end"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_an_answer_that_is_no_file(internet: Internet, page: bytes, told: str) -> None:
    """Whatever is there, nothing of it is told but the status."""
    internet.pages["/"] = page
    assert told in await refused("http://public.example/")


async def test_a_slow_answer_is_given_up(internet: Internet) -> None:
    """The time is of the whole, however many pieces keep coming; so it is with the header."""

    async def drip(writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async def silent(writer: Any) -> None:
        while not writer.is_closing():
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            await writer.drain()
            await asyncio.sleep(0.01)

    for page in (drip, silent):
        internet.pages["/"] = page
        assert "within 0.2 s" in await refused("http://public.example/", timeout_s=0.2)


SPELLINGS: list[dict[str, Any]] = [
    {"json": {"input_reference": "{url}"}},
    {"json": {"input_reference": {"image_url": "{url}"}}},
    {"json": {"image": "{url}"}},
    {"json": {"image_reference": {"image_url": "{url}"}}},
    {"files": {"input_reference": (None, "{url}")}},
    {"files": {"input_reference[image_url]": (None, "{url}")}},
    {"files": {"input_reference": (None, '{{"image_url": "{url}"}}')}},
]


def spelt(content: Any, url: str) -> Any:
    """The content with the URL in it."""
    if isinstance(content, dict):
        return {key: spelt(value, url) for key, value in content.items()}
    if isinstance(content, tuple):
        return tuple(None if value is None else spelt(value, url) for value in content)
    return content.replace("{url}", url).replace("{{", "{").replace("}}", "}")


async def test_every_spelling_of_a_request_fetches(internet: Internet, tmp_path: Path) -> None:
    """The picture is there when the job begins, and one for the last frame; fields are named as spelt."""
    internet.pages["/a.png"] = ok(encoded(split(), "PNG"))
    async with serving(tmp_path, urls={"enabled": True}) as server:
        for count, content in enumerate(SPELLINGS, 1):
            for url, status in (("http://public.example/a.png", 200), ("http://127.0.0.1/a.png", 400)):
                sent = spelt(content, url)
                if "json" in sent:
                    sent["json"] |= {"prompt": "x", "model": "picture", "last_image": url}
                else:
                    sent["files"] |= {"prompt": (None, "x"), "model": (None, "picture")}
                answer = await server.client.post("/v1/videos", **sent)
                assert answer.status_code == status, answer.text
                if status == 400:
                    assert answer.json()["error"]["code"] == "invalid_url"
                    assert answer.json()["error"]["param"].startswith(("input_reference", "image"))
            job_id = await server.finish(count)
            params = server.engine.tasks[job_id].params
            assert params.image is not None
            assert params.image.exists()
            assert (params.last_image is not None) == ("json" in content)


async def test_sounds_films_and_ordered_references_are_fetched(internet: Internet, tmp_path: Path) -> None:
    """As those that are sent: a voice, poses, and any reference of several; none from inside."""
    internet.pages |= {"/voice": ok(sound("mp3", "libmp3lame")), "/film": ok(film())}
    internet.pages["/picture"] = ok(encoded(split(), "PNG"))
    limits = ReferenceLimits(images=1, videos=1, audios=1, total=3)

    def asked(host: str) -> list[dict[str, Any]]:
        voice, poses, face = (
            {f"{kind}_url": f"http://{host}/{page}"}
            for kind, page in (("audio", "voice"), ("video", "film"), ("image", "picture"))
        )
        single = {"audio_reference": voice, "video_reference": poses}
        return [single, {"references": [poses, face, voice]}]

    async with serving(tmp_path, urls={"enabled": True}) as server:
        server.change_model(audio="optional", video="optional", references=limits)
        made = [await server.post(**fields) for fields in asked("public.example")]
        assert [answer.status_code for answer in made] == [200, 200]
        single, several = [server.engine.tasks[await server.finish(count)].params for count in (1, 2)]
        stored = (single.audio, single.video, *(each.path for each in several.references))
        kinds = [path.suffix for path in stored if path is not None and path.exists()]
        assert kinds == [".wav", ".mkv", ".mkv", ".png", ".wav"]
        for fields in asked("127.0.0.1"):
            error = (await server.post(**fields)).json()["error"]
            assert error["code"] == "invalid_url"
            assert error["param"].startswith(tuple(fields))


async def test_off_by_default(internet: Internet, tmp_path: Path) -> None:
    """The answer names the field and what is taken; nobody is asked."""
    assert not make_settings().urls.enabled
    async with serving(tmp_path) as server:
        for url in ("http://public.example/a.png", "HTTPS://public.example", "http://127.0.0.1/"):
            answer = await server.post(model="picture", input_reference={"image_url": url})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (400, "invalid_url")
            assert "URLs are not enabled on this server; send a file or a data: URI" in error["message"]
    assert (internet.asked, internet.dialled) == ([], [])


@pytest.mark.parametrize("host", ["", "A.example", "*", "*.*.com", "http://a.example", "a b", "bü.example"])
def test_a_host_of_the_list_that_could_never_fit(host: str) -> None:
    """It would refuse everything in silence."""
    with pytest.raises(ValueError, match="must be a host's name"):
        UrlSettings(hosts=(host,))


def test_the_errors_are_of_the_field() -> None:
    """So that they are renamed as the client spelt it."""
    assert issubclass(BadUrl, BadField)
