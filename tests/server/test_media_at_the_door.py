"""Sounds and films in requests, to a model that takes them and to those that do not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.server.films import film, sound
from tests.server.forks import decoders
from tests.server.running import Server, serving


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Its model `text` takes a sound and a film, and the others do not."""
    async with serving(tmp_path) as running:
        running.change_model(audio="optional", video="optional")
        yield running


async def _post(server: Server, model: str, **files: bytes) -> httpx.Response:
    return await server.client.post(
        "/v1/videos",
        data={"prompt": "x", "model": model},
        files={name: ("upload", data, "application/octet-stream") for name, data in files.items()},
    )


async def test_a_model_that_takes_them_gets_them(server: Server, tmp_path: Path) -> None:
    """As checked files in the job's folder, by names of ours."""
    response = await _post(server, "text", audio=sound("mp3", "libmp3lame"), video_reference=film())
    assert response.status_code == 200, response.text
    params = server.engine.tasks[await server.begun()].params
    folder = tmp_path / "uploads" / response.json()["id"]
    assert (params.audio, params.video) == (folder / "audio_reference.wav", folder / "video_reference.mkv")
    assert sorted(path.name for path in folder.iterdir()) == ["audio_reference.wav", "video_reference.mkv"]


async def test_what_is_none_is_refused(server: Server, tmp_path: Path) -> None:
    """With the name that the client used, and nothing is left."""
    response = await _post(server, "text", audio=b"no sound", video_reference=film())
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["code"]) == ("audio", "invalid_media")
    assert list((tmp_path / "uploads").iterdir()) == []


@pytest.mark.parametrize("field", ["audio_reference", "video_reference"])
async def test_other_models_refuse_them_unseen(server: Server, field: str) -> None:
    """Nothing is decoded for a model that has no use for it."""
    response = await _post(server, "both", **{field: film(audio="aac")})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == field
    assert decoders() == []
