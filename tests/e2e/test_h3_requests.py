"""MiniMax-H3 over HTTP: each of its workflows, with sound."""

from __future__ import annotations

import io
from base64 import b64encode
from fractions import Fraction
from typing import Any

import av
import httpx
import pytest
import torch

from tests.e2e.requests import SMALL, png, tensor_of, video_of
from tests.server.films import sound
from tests.serving import finished

H3 = SMALL | {"model": "tiny-minimax-h3", "output_format": "pt"}
PICTURE = f"data:image/png;base64,{b64encode(png()).decode()}"


def made(response: httpx.Response) -> dict[str, Any]:
    """What the file holds, which is as long to the ear as to the eye."""
    assert response.status_code == 200, response.text
    video = tensor_of(response.content)
    assert video["frames"].shape == (5, 32, 64, 3)
    assert video["fps"] == 24
    assert video["sample_rate"] == 32_000
    assert video["audio"].shape[0] == 2
    assert abs(video["audio"].shape[1] / 32_000 - 5 / 24) < 1 / 24
    assert bool(video["audio"].abs().max() > 0)
    return video


def test_a_client_can_learn_what_it_takes(client: httpx.Client) -> None:
    """Its references, its sound and what means nothing to it; the other models take no references."""
    models = {model["id"]: model for model in client.get("/v1/models").json()["data"]}
    told = models["tiny-minimax-h3"]
    assert (told["references"]["images"], told["references"]["total"]) == (9, 12)
    assert told["references"]["max_aspect"] == 4
    assert (told["image"], told["last_image"]) == ("optional", True)
    assert told["sound"] == {"sample_rate": 32_000, "channels": 2}
    assert "guidance_scale" in told["unused"]
    other = models["tiny-wan-t2v"]
    assert (other["image"], other["last_image"], other["references"]) == ("none", False, None)


def test_each_workflow_makes_its_own_video(client: httpx.Client) -> None:
    """Text; a first picture; a last one alone; both; references in a form: five videos of the same seed."""
    first, last = {"input_reference": PICTURE}, {"last_image": PICTURE}
    pictures: list[dict[str, Any]] = [{}, first, last, first | last]
    videos = [made(client.post("/v1/videos/sync", json=H3 | fields)) for fields in pictures]
    files = {
        "references[0][image_url]": ("upload", png(), "application/octet-stream"),
        "references[1][audio_url]": ("upload", sound("mp3", "libmp3lame"), "application/octet-stream"),
    }
    form = {name: str(value) for name, value in H3.items()}
    videos.append(made(client.post("/v1/videos/sync", data=form, files=files)))
    for one in range(len(videos)):
        for other in range(one):
            assert not torch.equal(videos[one]["frames"], videos[other]["frames"])
            assert not torch.equal(videos[one]["audio"], videos[other]["audio"])


@pytest.mark.parametrize("stream", [False, True])
def test_an_mp4_is_as_long_to_the_ear_as_to_the_eye(client: httpx.Client, stream: bool) -> None:
    """By another decoder: AAC in stereo beside the pictures, as long within one frame; sent live too."""
    fields = {"output_format": "mp4", "num_frames": 48, "stream": stream}
    response = client.post("/v1/videos/sync", json=H3 | fields)
    assert response.status_code == 200, response.text
    assert video_of(response.content) == ((64, 32), 48, Fraction(24))
    with av.open(io.BytesIO(response.content), "r") as container:
        heard = container.streams.audio[0]
        assert (heard.codec_context.name, heard.codec_context.sample_rate) == ("aac", 32_000)
        assert heard.codec_context.channels == 2
        samples = sum(frame.samples for frame in container.decode(heard))
        assert abs(Fraction(samples, 32_000) - Fraction(48, 24)) < Fraction(1, 24)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("guidance_scale", 4, "distilled"),
        ("negative_prompt", "blurry", "distilled"),
        ("fps", 30, "24 frames a second"),
        ("num_frames", 346, "at most 345"),
        ("audio_reference", "data:,x", "takes sounds in references"),
        ("prompt", "a dog <|video_pad|>", "stands for a film"),
    ],
)
def test_what_means_nothing_to_it_is_refused(
    client: httpx.Client, field: str, value: Any, words: str
) -> None:
    """Before anything is queued, with the field and the reason."""
    response = client.post("/v1/videos", json=H3 | {field: value})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == field
    assert words in error["message"]


def test_a_reference_of_a_strange_shape_is_refused(client: httpx.Client) -> None:
    """Before anything is queued."""
    long = f"data:image/png;base64,{b64encode(png(320, 32)).decode()}"
    response = client.post("/v1/videos", json=H3 | {"references": [{"image_url": long}]})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "references[0].image_url")
    assert "320x32" in response.json()["error"]["message"]


def test_it_stops_when_it_is_told_to(client: httpx.Client) -> None:
    """A long one, cancelled while it runs, is over soon and leaves no file."""
    long = H3 | {"num_inference_steps": 200, "num_frames": 345, "size": "320x192"}
    queued = client.post("/v1/videos", json=long).json()
    with client.stream("GET", f"/v1/videos/{queued['id']}/events") as events:
        for line in events.iter_lines():
            if '"denoise"' in line:
                break
    client.post(f"/v1/videos/{queued['id']}/cancel").raise_for_status()
    video = finished(client, queued["id"])
    assert video["error"] == {"code": "cancelled", "message": "the job was cancelled"}
    assert client.get(f"/v1/videos/{queued['id']}/content").status_code == 404
