"""Requests to a speech-to-video model: how long the video is, and what is refused."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import httpx
import numpy as np
import pytest

from pipelines.base import Grid, SoundFormat
from server.wav import seconds_of
from tests.server.door import CAPABILITIES, model
from tests.server.films import film
from tests.server.pictures import encoded, split
from tests.server.running import Server, serving

LIMIT = 161
"""Frames of the model's longest video: a little more than 10 s."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """Its only model makes a picture and a voice speak, at 16 frames per second."""
    speech = replace(
        model("speech", "s2v", "required", experts=1),
        last_image=False,
        audio="required",
        video="optional",
        sound=SoundFormat(48_000, 2),
        grid=Grid(temporal=80, spatial=16, offset=77),
    )
    async with serving(tmp_path) as running:
        running.engine.capabilities = replace(CAPABILITIES, models=(speech,))
        yield running


def wav(seconds: float, level: int = 64) -> bytes:
    """A square wave around silence, 8-bit mono at 8 kHz."""
    samples = np.full(round(seconds * 8_000), 128, dtype=np.uint8)
    samples[::50] += level
    head = b"fmt " + np.array([16], "<u4").tobytes() + np.array([1, 1], "<u2").tobytes()
    head += np.array([8_000, 8_000], "<u4").tobytes() + np.array([1, 8], "<u2").tobytes()
    data = b"data" + np.array([len(samples)], "<u4").tobytes() + samples.tobytes()
    return b"RIFF" + np.array([4 + len(head) + len(data)], "<u4").tobytes() + b"WAVE" + head + data


async def ask(server: Server, voice: bytes | None, *, picture: bool = True, **fields: Any) -> httpx.Response:
    files = {} if voice is None else {"audio_reference": ("upload", BytesIO(voice))}
    if picture:
        files["input_reference"] = ("upload", BytesIO(encoded(split(), "PNG")))
    return await server.client.post("/v1/videos", data={"prompt": "x", **fields}, files=files)


def refusal(response: httpx.Response) -> tuple[str, str]:
    """The field and what is said of it."""
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    return error["param"], error["message"]


@pytest.mark.parametrize(
    ("fields", "frames"),
    [
        ({}, 32),
        ({"fps": "24"}, 48),
        ({"fps": "24000/1001"}, 48),
        ({"seconds": "1"}, 16),
        ({"num_frames": "70"}, 70),
    ],
)
async def test_as_long_as_its_sound(server: Server, fields: dict[str, Any], frames: int) -> None:
    """Two seconds, at the rate asked for, unless the request says how long, shorter or longer than that."""
    response = await ask(server, wav(2), **fields)
    assert response.status_code == 200, response.text
    assert response.json()["num_frames"] == frames
    params = server.engine.tasks[await server.begun()].params
    assert params.num_frames == frames
    assert params.fps == Fraction(fields.get("fps", 16))
    assert params.audio is not None
    assert seconds_of(params.audio) == 2


async def test_its_files_may_be_named(server: Server) -> None:
    """As vLLM-Omni's clients do it: objects whose keys say what they are, in a form or in JSON."""
    references = {
        "image_reference": {"image_url": f"data:;base64,{b64encode(encoded(split(), 'PNG')).decode()}"},
        "audio_reference": {"audio_url": f"data:;base64,{b64encode(wav(2)).decode()}"},
        "video_reference": {"video_url": f"data:;base64,{b64encode(film()).decode()}"},
    }
    parts = {"prompt": (None, "x")} | {field: (None, json.dumps(each)) for field, each in references.items()}
    whole: list[dict[str, Any]] = [{"json": {"prompt": "x", **references}}, {"files": parts}]
    for sent in whole:
        response = await server.client.post("/v1/videos", **sent)
        assert response.status_code == 200, response.text
        assert response.json()["num_frames"] == 32
    params = server.engine.tasks[await server.begun()].params
    assert None not in (params.image, params.audio, params.video)


async def test_a_long_sound_is_refused_with_its_length(server: Server) -> None:
    """And with the limit; its beginning can be asked for."""
    field, message = refusal(await ask(server, wav(11)))
    assert field == "audio_reference"
    assert "lasts 11 s, 176 frames" in message
    assert "the longest is 10.062 s (161 frames at 16 frames per second)" in message
    assert (await ask(server, wav(11), num_frames=str(LIMIT))).status_code == 200


async def test_work_is_counted_with_the_length_of_the_sound(server: Server) -> None:
    """Four videos of two seconds in many steps are fine, and of ten they are not."""
    fields: dict[str, Any] = {"num_inference_steps": "80", "n": "4"}
    assert (await ask(server, wav(2), **fields)).status_code == 200
    field, message = refusal(await ask(server, wav(10), **fields))
    assert field == "audio_reference"
    assert "237 frames" in message


def ten_hours() -> bytes:
    """Two tones with hours between them: a small file."""
    buffer, rate = BytesIO(), 48_000
    with av.open(buffer, "w", format="mp4") as output:
        stream = output.add_stream("aac", rate=rate)
        frame = av.AudioFrame.from_ndarray(np.full((1, 1024), 0.5, dtype=np.float32), "fltp", "mono")
        frame.sample_rate = rate
        for start in (0, 36_000 * rate):
            frame.pts = start
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("voice", "told"),
    [
        (None, "is required; speech starts from a sound"),
        (wav(1, level=0), "is silent"),
        (wav(0), "has no sound in it"),
        (b"", "is damaged"),
        (film(), "has no sound"),
        (ten_hours(), "lasts 36000 s and is longer than 60 s"),
    ],
    ids=["none", "silent", "0-length", "empty", "film without sound", "ten hours"],
)
async def test_a_bad_sound_is_refused(server: Server, tmp_path: Path, voice: bytes | None, told: str) -> None:
    """Each by its own words, on its field, and nothing is left."""
    field, message = refusal(await ask(server, voice))
    assert field == "audio_reference"
    assert told in message
    assert list((tmp_path / "uploads").iterdir()) == []


async def test_a_missing_picture_is_named(server: Server) -> None:
    field, message = refusal(await ask(server, wav(1), picture=False))
    assert field == "input_reference"
    assert "starts from a picture" in message


async def test_only_speech_starts_from_its_picture(tmp_path: Path, server: Server) -> None:
    """Other models have no use for `init_first_frame`, but for false."""
    assert (await ask(server, wav(1), init_first_frame="true")).status_code == 200
    params = server.engine.tasks[await server.begun()].params
    assert params.init_first_frame
    server.engine.capabilities = CAPABILITIES
    assert (await server.post(init_first_frame=False)).status_code == 200
    field, message = refusal(await server.post(init_first_frame=True))
    assert (field, message) == (
        "init_first_frame",
        "init_first_frame: true is not allowed; text does not speak",
    )


async def test_a_remix_keeps_voice_picture_and_length(server: Server) -> None:
    """Another voice makes it as long as that one."""
    first = await ask(server, wav(2), init_first_frame="true")
    await server.finish()
    url = f"/v1/videos/{first.json()['id']}/remix"
    again = await server.client.post(url, json={"prompt": "y"})
    assert again.status_code == 200, again.text
    assert again.json()["num_frames"] == 32
    assert server.engine.tasks[await server.begun(2)].params.init_first_frame
    files = {"audio_reference": ("upload", BytesIO(wav(3)))}
    other = await server.client.post(url, data={"prompt": "y"}, files=files)
    assert other.json()["num_frames"] == 48


async def test_a_remix_at_another_rate_says_as_much(server: Server) -> None:
    """All of a sound of 2.03 s, or the half second of it that the source has, unless it says how long."""
    short: dict[str, Any] = {"num_frames": "8"}
    cases = [({}, {}, 49), ({}, {"num_frames": 9}, 9), (short, {}, 12), (short, {"seconds": 1}, 24)]
    for place, (given, asked, frames) in enumerate(cases):
        first = await ask(server, wav(2.03), **given)
        await server.finish(2 * place + 1)
        url = f"/v1/videos/{first.json()['id']}/remix"
        again = await server.client.post(url, json={"prompt": "y", "fps": 24, **asked})
        assert again.status_code == 200, again.text
        assert again.json()["num_frames"] == frames
        params = server.engine.tasks[await server.finish(2 * place + 2)].params
        assert (params.num_frames, params.fps) == (frames, Fraction(24))


async def test_a_remix_at_a_rate_that_makes_it_too_long_names_the_rate(server: Server) -> None:
    """It is what the client has asked for; the length is the source's, 96 of 128 frames."""
    first = await ask(server, wav(8), num_frames="96")
    await server.finish(1)
    url = f"/v1/videos/{first.json()['id']}/remix"
    again = await server.client.post(url, json={"prompt": "y", "fps": 30})
    assert again.status_code == 400
    error = again.json()["error"]
    assert error["param"] == "fps"
    assert error["message"].startswith(
        "fps: 30 is not allowed; the source's 6 s would be 180 frames then, and"
    )
    assert f"at most {LIMIT}" in error["message"]
