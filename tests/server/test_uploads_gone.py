"""Nothing of an upload stays when its request is over, however it ended."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from server.spool import MEMORY_BYTES
from tests.server.pictures import encoded, split
from tests.server.raw_forms import END, FORM, GOOD, part
from tests.server.running import Server

UPLOAD = part(b'input_reference"; filename="u', encoded(split(), "PNG") + bytes(2 * MEMORY_BYTES))
MODEL = part(b"model", b"picture")


def _open_spools(data: Path) -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if str(entry.readlink()).startswith(str(data / "spool")):
                yield entry.name


def _left(data: Path) -> list[Path]:
    """What lies below the folders of uploads, and what is open without a name."""
    assert list(_open_spools(data)) == []
    return [path for folder in ("spool", "uploads") for path in (data / folder).rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (GOOD + MODEL + UPLOAD + END, 200),
        (GOOD + UPLOAD + END, 400),
        (GOOD + MODEL + UPLOAD + part(b"size", b"huge") + END, 400),
        (GOOD + MODEL + UPLOAD, 400),
        (GOOD + MODEL + part(b'input_reference"; filename="u', bytes(2 * MEMORY_BYTES)) + END, 400),
        (GOOD + MODEL + UPLOAD + part(b'last_image"; filename="u', b"no picture") + END, 400),
    ],
    ids=["queued", "refused field", "refused value", "cut off", "no picture", "second picture bad"],
)
async def test_an_answered_request_leaves_its_picture_or_nothing(
    server: Server, tmp_path: Path, body: bytes, status: int
) -> None:
    """A job has the checked picture; a refusal has nothing."""
    response = await server.client.post("/v1/videos", content=body, headers={"content-type": FORM})
    assert response.status_code == status
    assert [path.name for path in _left(tmp_path)] == ["input_reference.png"] * (status == 200)


async def test_a_client_that_goes_away_leaves_nothing(server: Server, tmp_path: Path) -> None:
    """In the middle of its upload, with half of it on disk."""
    arrived = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        yield GOOD + MODEL + UPLOAD
        arrived.set()
        await asyncio.Event().wait()

    sending = asyncio.create_task(
        server.client.post("/v1/videos", content=half(), headers={"content-type": FORM})
    )
    await arrived.wait()
    assert len(list(_open_spools(tmp_path))) == 1
    sending.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sending
    assert _left(tmp_path) == []


async def test_a_name_reaches_no_file_system(server: Server, tmp_path: Path) -> None:
    """Whatever a client calls its file, ours has our name."""
    for name in (b"../../../owned", b"/tmp/owned", b"a\0b", b"x" * 5_000, b'"; name="other'):
        upload = part(b'input_reference"; filename="' + name, encoded(split(), "PNG"))
        body = GOOD + MODEL + upload + END
        await server.client.post("/v1/videos", content=body, headers={"content-type": FORM})
    assert {path.name for path in _left(tmp_path)} == {"input_reference.png"}
