"""A thousand damaged pictures and forms against the whole server: nothing breaks, grows or stays.

`FUZZ_CASES` and `FUZZ_SEED` make it another number, and other ones.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from random import Random

import httpx
import psutil
import pytest

from tests.fuzz.forms import Form, Piece, damaged_form
from tests.fuzz.mutations import damaged_picture, good_pictures
from tests.server.forks import decoders
from tests.server.running import Server, serving
from tests.wire.envelope import judge

CASES = int(os.environ.get("FUZZ_CASES", "1000"))
SEED = int(os.environ.get("FUZZ_SEED", "20261129"))
WARM_UP = 200
SIDE_BY_SIDE = 4
MAX_GROWTH = 24 * 2**20
"""Of this process and of that which decodes, after the warm-up."""
TYPE = "multipart/form-data; boundary=b"


@pytest.mark.timeout(900)
async def test_nothing_breaks_grows_or_stays(tmp_path: Path) -> None:
    """No 5xx, no other process than at first, no more memory, no file of what was refused."""
    async with serving(tmp_path, queue={"max_jobs": 1000}) as server:
        await _all(server, [_picture_form(picture) for picture in good_pictures()], expected={200})
        decoder = _decoder()
        statuses = await _all(server, _cases(Random(SEED), WARM_UP))  # noqa: S311 - repeatable damage
        before = _memory()
        statuses += await _all(server, _cases(Random(SEED + 1), CASES))  # noqa: S311
        assert _memory() - before < MAX_GROWTH
        assert _decoder() == decoder
        assert set(statuses) <= {200, 400, 404, 413, 415}
        assert statuses[200] > CASES / 20, "the damage is too heavy to reach far"
        assert statuses[400] > CASES / 3
        for folder in ("uploads", "spool", "artifacts"):
            assert list((tmp_path / folder).iterdir()) == []
        await _all(server, [_picture_form(picture) for picture in good_pictures()], expected={200})


def _cases(draw: Random, count: int) -> Iterator[Form]:
    """Pictures in right forms and in JSON, and wrong forms."""
    kinds = (_damaged_picture_form, _damaged_picture_form, _damaged_picture_json, damaged_form, damaged_form)
    for _ in range(count):
        yield draw.choice(kinds)(draw)


def _picture_form(picture: bytes) -> Form:
    parts = (Piece("prompt", b"x"), Piece("model", b"picture"), Piece("input_reference", picture, "upload"))
    body = b"".join(part.written() for part in parts) + b"--b--\r\n"
    return Form([body], TYPE, len(body))


def _damaged_picture_form(draw: Random) -> Form:
    return _picture_form(damaged_picture(draw))


def _damaged_picture_json(draw: Random) -> Form:
    uri = "data:image/png;base64," + base64.b64encode(damaged_picture(draw)).decode()
    body = json.dumps({"prompt": "x", "model": "picture", "input_reference": uri}).encode()
    return Form([body], "application/json", len(body))


async def _all(server: Server, forms: Iterable[Form], expected: set[int] | None = None) -> Counter[int]:
    """Send them, a few at a time."""
    waiting = iter(forms)
    statuses: Counter[int] = Counter()
    await asyncio.gather(*(_some(server, waiting, statuses) for _ in range(SIDE_BY_SIDE)))
    assert expected is None or set(statuses) == expected
    return statuses


async def _some(server: Server, forms: Iterator[Form], statuses: Counter[int]) -> None:
    for form in forms:
        response = judge(await _send(server, form))
        statuses[response.status_code] += 1
        if response.status_code == 200:
            await _take_back(server, response.json()["id"])


async def _send(server: Server, form: Form) -> httpx.Response:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in form.pieces:
            yield piece

    headers = {"content-type": form.content_type} if form.content_type else {}
    if form.length is not None:
        headers["content-length"] = str(form.length)
    return await server.client.post("/v1/videos", content=pieces(), headers=headers)


async def _take_back(server: Server, job_id: str) -> None:
    """The job of a picture that was good enough, so that nothing of it may stay either."""
    (await server.client.delete(f"/v1/videos/{job_id}")).raise_for_status()


def _decoder() -> list[int]:
    """The process that decodes: one, and always the same."""
    found = [process.pid for process in decoders()]
    assert len(found) == 1
    return found


def _memory() -> int:
    gc.collect()
    return sum(process.memory_info().rss for process in (psutil.Process(), *decoders()))
