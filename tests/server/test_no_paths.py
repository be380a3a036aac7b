"""No client decides where a file lies, and none is told; `video_path` aside, where the operator allows it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from encoding.errors import EncodingError, StorageFailed, translate
from tests.server.logged import writing
from tests.server.pictures import encoded, split
from tests.server.running import Server, serving

WAYS_OUT = [
    "../../escaped",
    "/tmp/escaped",
    "..%2f..%2fescaped",
    "a/../../escaped",
    "escaped\0.png",
    "C:\\escaped",
]
OURS = re.compile(
    r"(jobs\.sqlite3(-\w+|\.lock)?|server\.lock|spool|uploads|artifacts"
    r"|(uploads|artifacts)/video_[0-9a-f]{32}"
    r"|uploads/video_[0-9a-f]{32}/(input_reference|last_image)\.png"
    r"|artifacts/video_[0-9a-f]{32}/video(-\d)?\.\w+"
    r"|artifacts/video_[0-9a-f]{32}/(thumbnail|spritesheet)(-\d)?\.\w+)"
)
PROMPT = "a prompt that nobody else may read"


def tree(folder: Path) -> Iterator[str]:
    """Every file and folder below it, by its relative path."""
    for path in folder.rglob("*"):
        yield str(path.relative_to(folder))


async def requests_with(server: Server, odd: str) -> list[httpx.Response]:
    """The text in every place of a request where a name can stand."""
    client, picture = server.client, encoded(split(), "PNG")
    form: dict[str, Any] = {
        "prompt": (None, "x"),
        "model": (None, "picture"),
        "input_reference": (odd, picture, odd),
    }
    quoted = odd.replace("%", "%25").replace("\0", "%00").replace("\\", "%5c")
    answers = [
        await client.post("/v1/videos", files=form),
        await client.post("/v1/videos", files={**form, odd: (odd, b"x")}),
    ]
    bodies: list[dict[str, Any]] = [
        {"user": odd, "metadata": {odd: odd}, "quality": odd},
        {"latent_path": odd},
        {"output_format": odd},
        {"response_format": odd},
        {"model": odd},
        {"input_reference": odd},
        {"input_reference": {"image_url": f"file://{odd}"}},
        {"input_reference": {"file_id": odd}},
        {"video_codec_options": {"stats": odd}},
        {"extra_params": {odd: odd}},
    ]
    answers += [await server.post(**fields) for fields in bodies]
    headers = {"idempotency-key": re.sub(r"[^\x20-\x7e]", "", odd), "x-request-id": odd.replace("\0", "")}
    answers.append(await server.post(headers=headers))
    for path in (f"/v1/videos/{quoted}", f"/v1/models/{quoted}", f"/static/{quoted}", f"/{quoted}"):
        answers += [await client.request(method, path) for method in ("GET", "DELETE", "POST")]
        answers.append(await client.get(f"{path}/content?variant={quoted}"))
    answers.append(await client.get("/v1/videos", params={"after": odd}))
    return answers


async def test_no_name_of_a_client_becomes_a_path(tmp_path: Path) -> None:
    """Whatever names files in a request, what lies on the disk has names of ours."""
    data = tmp_path / "inside" / "data"
    latents = tmp_path / "inside" / "latents"
    latents.mkdir(parents=True)
    async with serving(data, fixed_latents={"dir": latents}) as server:
        for odd in WAYS_OUT:
            for answer in await requests_with(server, odd):
                assert answer.status_code < 500, answer.text
        odd_names = {name for name in tree(data) if OURS.fullmatch(name) is None}
    assert odd_names == set()
    outside = {name for name in tree(tmp_path) if not name.startswith("inside/data/")}
    assert outside == {"inside", "inside/data", "inside/latents"}
    assert [name for name in os.listdir("/tmp") if name.startswith("escaped")] == []  # noqa: PTH208


async def everything(server: Server) -> list[httpx.Response]:
    """Answers of every kind: good ones, refusals, failures."""
    client, post = server.client, server.post
    answers = [await post(prompt=PROMPT), await post(prompt=PROMPT, response_format="video_path")]
    answers.append(await client.get("/v1/videos"))
    first = await server.finish(1)
    second = await server.begun(2)
    server.engine.fail(second, "encoding_failed", str(broken(server)))
    live = server.services.dispatcher.roster.live(second)
    if live is not None:
        await live.ended.wait()
    picture = {
        "prompt": (None, PROMPT),
        "model": (None, "picture"),
        "input_reference": ("a.png", b"no picture"),
    }
    answers.append(await client.post("/v1/videos", files=picture))  # type: ignore[arg-type]
    for job_id in (first, second):
        tails = ("", "/content", "/content?variant=thumbnail", "/content?index=4", "/events")
        answers += [await client.get(f"/v1/videos/{job_id}{tail}") for tail in tails]
    artifact = server.services.artifacts.video(first, 0, "mp4")
    artifact.unlink()
    answers += [await client.get(f"/v1/videos/{first}/content"), await post(latent_path="../x.pt")]
    paths = (
        "/v1/videos?after=x",
        "/health",
        "/metrics",
        "/openapi.json",
        "/docs",
        "/version",
        "/v1/models",
    )
    answers += [await client.get(path) for path in paths]
    answers.append(await client.delete(f"/v1/videos/{first}"))
    return answers


def broken(server: Server) -> EncodingError:
    """What the worker makes of an error of the encoder that names its file."""
    path = server.services.settings.artifacts_dir / "video_x" / "video.mp4"
    return translate(NotADirectoryError(20, "Not a directory", str(path)), "opening video.mp4")


async def test_no_answer_and_no_line_of_the_log_tells_a_path(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor the prompt, in the log. Whoever asked for the path gets it, in that answer and no other."""
    data = tmp_path / "secret-place"
    folders = {
        "artifacts": {"dir": data / "videos", "expose_paths": True},
        "fixed_latents": {"dir": data / "noise"},
    }
    for name in ("sqlalchemy", "asyncio", "httpx", "httpcore", "PIL", "alembic", "aiosqlite"):
        caplog.set_level(logging.WARNING, logger=name)  # as `logs.configure` sets them
    with writing(caplog, logging.DEBUG):
        async with serving(data, **folders) as server:
            answers = await everything(server)
    for answer in answers:
        said = str(answer.headers) + (answer.text if "video/" not in answer.headers["content-type"] else "")
        assert "secret-place" not in said, (answer.request.url, said[:300])
        assert str(Path.cwd()) not in said, answer.request.url
    assert {answer.status_code for answer in answers} >= {200, 400, 404}
    assert "completed" in caplog.text
    assert "secret-place" not in caplog.text
    assert PROMPT not in caplog.text


async def test_the_path_is_told_to_whom_it_was_promised(tmp_path: Path) -> None:
    """Of a file below the configured folder, and of nothing else."""
    root = tmp_path / "videos"
    async with serving(tmp_path / "data", artifacts={"dir": root, "expose_paths": True}) as server:
        await server.post(response_format="video_path")
        job_id = await server.finish()
        accept = {"accept": "application/json"}
        told = (await server.client.get(f"/v1/videos/{job_id}/content", headers=accept)).json()
    assert told == {"video_id": job_id, "video_path": str(root / job_id / "video.mp4")}


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file", "/secret/place"),
        type(
            "FFmpegError",
            (Exception,),
            {"strerror": "Invalid", "__str__": lambda _: "Invalid: '/secret/place'"},
        )(),
    ],
)
def test_an_encoders_error_keeps_its_file_to_itself(error: Exception) -> None:
    """The system's and FFmpeg's errors name the file that they are about; only the reason is kept."""
    ours = translate(error, "writing video.mp4")
    assert "/secret/place" not in str(ours)
    assert str(error).split(":", maxsplit=1)[0].removeprefix("[Errno 2] ") in str(ours)
    assert isinstance(ours, StorageFailed) == isinstance(error, OSError)


async def test_latents_are_files_and_nothing_else(tmp_path: Path) -> None:
    """Neither pipes, which would hold a worker for good, nor sockets or devices."""
    folder = tmp_path / "latents"
    folder.mkdir()
    os.mkfifo(folder / "pipe.pt")
    (folder / "null.pt").symlink_to("/dev/zero")
    (folder / "noise.pt").write_bytes(b"noise")
    odd: list[Any] = [
        "pipe.pt",
        "null.pt",
        "noise.pt\0.pt",
        "noise.pt/",
        "//noise.pt",
        ["noise.pt"],
    ]
    async with serving(tmp_path / "data", fixed_latents={"dir": folder}) as server:
        for name in odd:
            answer = await server.post(latent_path=name)
            assert answer.status_code == (200 if name == "noise.pt/" else 400), (name, answer.text)
