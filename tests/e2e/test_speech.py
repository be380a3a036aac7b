"""A spoken sentence and a picture become a talking video, through the real server."""

from __future__ import annotations

import io
import subprocess
from fractions import Fraction
from itertools import pairwise

import av
import httpx
import numpy as np
import pytest

from tests.e2e.requests import png
from tests.encoding.judge import watch

FIELDS = {
    "model": "tiny-wan-s2v",
    "prompt": "a woman says hello",
    "size": "64x64",
    "num_inference_steps": "1",
}
CLIP, FIRST_CLIP = 8, 5
"""Frames of the shipped model's clips."""


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """espeak-ng saying a sentence."""
    file = tmp_path_factory.mktemp("voice") / "voice.wav"
    subprocess.run(["espeak-ng", "-s", "180", "-w", str(file), "Hello, this is a test."], check=True)
    return file.read_bytes()


def speak(client: httpx.Client, voice: bytes, **fields: str) -> bytes:
    files = {"audio_reference": ("upload", voice), "input_reference": ("upload", png(64, 64))}
    response = client.post("/v1/videos/sync", data=FIELDS | fields, files=files)
    assert response.status_code == 200, response.text
    return response.content


def heard(content: bytes) -> tuple[str, float, float]:
    """Codec, length in seconds and greatest level of the sound of a file."""
    with av.open(io.BytesIO(content), "r") as container:
        stream = container.streams.audio[0]
        frames = [frame for frame in container.decode(stream) if isinstance(frame, av.AudioFrame)]
        rate = stream.codec_context.sample_rate
        peak = max(float(np.abs(frame.to_ndarray()).max()) for frame in frames)
        return stream.codec_context.name, sum(frame.samples for frame in frames) / rate, peak


def length_of(voice: bytes) -> Fraction:
    with av.open(io.BytesIO(voice), "r") as container:
        stream = container.streams.audio[0]
        samples = sum(frame.samples for frame in container.decode(stream))
        return Fraction(samples, stream.codec_context.sample_rate)


@pytest.mark.espeak
def test_a_sentence_is_seen_and_heard(client: httpx.Client, voice: bytes) -> None:
    """As long as it takes to say: several clips, joined without a jump, and the voice in the same file."""
    content = speak(client, voice)
    video = watch(content)
    frames = len(video.times)
    assert frames == round(length_of(voice) * 16)
    assert frames > FIRST_CLIP + CLIP
    assert (video.size, video.rate) == ((64, 64), Fraction(16))
    assert {later - earlier for earlier, later in pairwise(video.times)} == {Fraction(1, 16)}
    codec, seconds, peak = heard(content)
    assert codec == "aac"
    assert abs(seconds - frames / 16) <= 1 / 16
    assert peak > 0.1


@pytest.mark.espeak
def test_at_another_rate_and_only_its_beginning(client: httpx.Client, voice: bytes) -> None:
    """What is asked for is made; the sound ends with the pictures."""
    content = speak(client, voice, fps="24", num_frames="17")
    video = watch(content)
    assert (len(video.times), video.rate) == (17, Fraction(24))
    _, seconds, _ = heard(content)
    assert abs(seconds - 17 / 24) <= 1 / 24
