"""Requests that the end-to-end tests make, and what comes back."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import httpx
import torch
from PIL import Image

from tests.encoding.judge import watch

SMALL = {"prompt": "a red circle", "size": "64x32", "num_frames": 5, "num_inference_steps": 2, "seed": 7}
ENDLESS = SMALL | {"size": "160x96", "num_frames": 161, "num_inference_steps": 200}
"""Minutes of work, for a test that ends it."""


def video_of(content: bytes) -> tuple[tuple[int, int], int, Fraction]:
    """Size, number of frames and rate, by another decoder."""
    video = watch(content)
    return video.size, len(video.times), video.rate


def tensor_of(content: bytes) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(io.BytesIO(content), weights_only=True)
    return loaded


def make(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/videos/sync", json=SMALL | fields).raise_for_status()


@contextmanager
def occupied(client: httpx.Client) -> Iterator[Callable[[], object]]:
    """A worker that is busy for as long as the block lasts, or until what it is given is called."""
    url = f"/v1/videos/{client.post('/v1/videos', json=ENDLESS).raise_for_status().json()['id']}"

    def release() -> None:
        client.delete(url)

    try:
        yield release
    finally:
        release()


def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition, or fail."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.02)


def begun(client: httpx.Client, video_id: str) -> None:
    """Wait until a worker has begun the job."""
    until(lambda: client.get(f"/v1/videos/{video_id}").json()["status"] == "in_progress", 30)


def png(width: int = 64, height: int = 32) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()
