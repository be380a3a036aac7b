"""Plain curl: JSON and forms, `--fail`, ranges, HEAD, and bodies of no announced length."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.requests import ENDLESS, SMALL, png, until, video_of
from tests.serving import PATIENCE_S

pytestmark = pytest.mark.curl

FORM = [part for name, value in SMALL.items() for part in ("-F", f"{name}={value}")]
JSON = ("-H", "Content-Type: application/json")


@pytest.fixture
def videos(url: str) -> str:
    return f"{url}/v1/videos"


@pytest.fixture(scope="module")
def made(url: str) -> Iterator[str]:
    """The address of a completed video."""
    created = answered(curl(f"{url}/v1/videos", *JSON, "-d", json.dumps(SMALL)))
    address = f"{url}/v1/videos/{created['id']}"
    while (video := answered(curl(address)))["status"] != "completed":
        assert video["status"] in ("queued", "in_progress")
        time.sleep(0.05)
    yield address
    curl("-X", "DELETE", address)


def curl(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = ["curl", "--silent", "--show-error", "--noproxy", "*", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=PATIENCE_S)


def answered(run: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    assert run.returncode == 0, run.stderr
    body: dict[str, Any] = json.loads(run.stdout)
    return body


def headers_of(run: subprocess.CompletedProcess[bytes]) -> dict[str, str]:
    lines = run.stdout.decode("latin-1").split("\r\n\r\n", 1)[0].split("\r\n")[1:]
    return {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}


def test_json_and_form_are_the_same_video(videos: str) -> None:
    """`-d` with JSON, and `-F` a field: byte for byte."""
    as_json = curl(f"{videos}/sync", *JSON, "-d", json.dumps(SMALL))
    as_form = curl(f"{videos}/sync", *FORM)
    assert video_of(as_json.stdout)[:2] == ((64, 32), 5)
    assert as_json.stdout == as_form.stdout


def test_a_picture_from_a_file_or_from_stdin(videos: str, tmp_path: Path) -> None:
    """`-F name=@file` and `-F name=@-`: the same video."""
    picture = tmp_path / "first.png"
    picture.write_bytes(png())
    fields = ("-F", "model=tiny-wan-ti2v", *FORM)
    from_file = curl(f"{videos}/sync", *fields, "-F", f"input_reference=@{picture}")
    from_stdin = curl(f"{videos}/sync", *fields, "-F", "input_reference=@-", stdin=png())
    assert video_of(from_file.stdout)[1] == 5
    assert from_file.stdout == from_stdin.stdout


@pytest.mark.parametrize(
    "upload",
    [
        ("-X", "POST", "-T", "-"),
        ("-d", "@-", "-H", "Transfer-Encoding: chunked"),
        ("-d", "@-", "-H", "Expect: 100-continue"),
    ],
    ids=["upload", "chunked", "expect"],
)
def test_a_body_from_stdin(videos: str, upload: tuple[str, ...]) -> None:
    """In chunks, or after the server was asked to go on."""
    created = answered(curl(videos, *JSON, *upload, stdin=json.dumps(SMALL).encode()))
    assert (created["object"], created["prompt"]) == ("video", SMALL["prompt"])


def test_curl_fails_where_the_server_refuses(videos: str) -> None:
    """With `--fail` the exit status is 22; with `--fail-with-body` the answer is there as well."""
    wrong = json.dumps(SMALL | {"guidance_scale": 99})
    assert curl("--fail", videos, *JSON, "-d", wrong).returncode == 22
    told = curl("--fail-with-body", videos, *JSON, "-d", wrong)
    assert told.returncode == 22
    assert json.loads(told.stdout)["error"]["param"] == "guidance_scale"


def test_what_curl_sends_without_a_content_type(videos: str) -> None:
    """`-d` alone says that it is urlencoded: 415, which names what is accepted."""
    told = curl(videos, "-d", json.dumps(SMALL), "-w", "%{http_code}")
    assert told.stdout.endswith(b"415")
    assert b"application/json or multipart/form-data" in told.stdout


def test_the_name_of_the_file(made: str, tmp_path: Path) -> None:
    """`-OJ` saves it under the video's own name."""
    run = curl("-OJ", "--output-dir", str(tmp_path), f"{made}/content")
    assert run.returncode == 0, run.stderr
    assert [path.name for path in tmp_path.iterdir()] == [f"{made.rsplit('/', 1)[1]}.mp4"]


def test_ranges(made: str) -> None:
    """`-r` gives the piece; the pieces make the file, and one beyond its end is 416."""
    whole = curl(f"{made}/content").stdout
    pieces = [curl("-r", part, f"{made}/content").stdout for part in ("0-1", "2-99", "100-")]
    assert b"".join(pieces) == whole
    assert curl("-r", "-4", f"{made}/content").stdout == whole[-4:]
    beyond = curl("-r", f"{len(whole)}-", "-o", "/dev/null", "-w", "%{http_code}", f"{made}/content")
    assert beyond.stdout == b"416"


def test_a_download_goes_on_where_it_stopped(made: str, tmp_path: Path) -> None:
    """`-C -` asks for the rest."""
    whole = curl(f"{made}/content").stdout
    target = tmp_path / "video.mp4"
    target.write_bytes(whole[:100])
    run = curl("-C", "-", "-o", str(target), f"{made}/content")
    assert run.returncode == 0, run.stderr
    assert target.read_bytes() == whole


def test_a_head_has_the_headers_of_the_file(made: str) -> None:
    """`-I`: length, type, ranges and a validator, but no body."""
    told = headers_of(curl("-I", f"{made}/content"))
    assert int(told["content-length"]) == len(curl(f"{made}/content").stdout)
    assert (told["content-type"], told["accept-ranges"]) == ("video/mp4", "bytes")
    fresh = curl("-H", f"If-None-Match: {told['etag']}", "-w", "%{http_code}", f"{made}/content")
    assert fresh.stdout == b"304"


@pytest.mark.parametrize(("variant", "magic"), [("thumbnail", b"RIFF"), ("spritesheet", b"\xff\xd8\xff")])
def test_previews(made: str, variant: str, magic: bytes) -> None:
    """Pictures of the type that each is documented to have."""
    assert curl("--fail", f"{made}/content?variant={variant}").stdout.startswith(magic)


def test_an_abandoned_wait_ends_the_job(videos: str) -> None:
    """The program is ended; the job behind it is cancelled."""
    prompt = "given up by curl"
    command = ["curl", "--silent", "--noproxy", "*", f"{videos}/sync", *JSON]
    waiting = subprocess.Popen([*command, "-d", json.dumps(ENDLESS | {"prompt": prompt})])

    def is_at(status: str) -> bool:
        jobs = answered(curl(f"{videos}?limit=5"))["data"]
        return [job["status"] for job in jobs if job["prompt"] == prompt] == [status]

    until(lambda: is_at("in_progress"))
    waiting.terminate()
    waiting.wait(PATIENCE_S)
    until(lambda: is_at("failed"))
