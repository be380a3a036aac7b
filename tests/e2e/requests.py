"""Requests that the end-to-end tests make, and what comes back."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from http.client import HTTPConnection
from typing import Any

import httpx
import torch
from PIL import Image

from tests.encoding.judge import watch
from tests.serving import PATIENCE_S

SMALL = {"prompt": "a red circle", "size": "64x32", "num_frames": 5, "num_inference_steps": 2, "seed": 7}
ENDLESS = SMALL | {
    "prompt": "fault:paused=/nowhere/never",
    "size": "160x96",
    "num_frames": 161,
    "num_inference_steps": 200,
}
"""For a test that ends it: a worker that knows faults waits, and any other one has minutes of work."""


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
    video_id = client.post("/v1/videos", json=ENDLESS).raise_for_status().json()["id"]

    def release() -> None:
        client.delete(f"/v1/videos/{video_id}")

    try:
        begun(client, video_id)
        yield release
    finally:
        release()


@contextmanager
def waiting(client: httpx.Client, fields: dict[str, Any], **headers: str) -> Iterator[str]:
    """The id of a job that a request of another client waits for, begun; that one leaves with the block.

    The prompt must be one that no other job has.
    """
    connection = HTTPConnection(client.base_url.host, client.base_url.port, timeout=PATIENCE_S)
    headers = {"Content-Type": "application/json"} | headers
    connection.request("POST", "/v1/videos/sync", json.dumps(fields), headers)
    try:
        until(lambda: len(jobs(client, fields["prompt"])) == 1)
        (video_id,) = jobs(client, fields["prompt"])
        begun(client, video_id)
        yield video_id
    finally:
        connection.close()


def jobs(client: httpx.Client, prompt: str) -> list[str]:
    """The ids of all jobs with this prompt, newest first."""
    data = client.get("/v1/videos", params={"limit": 100}).raise_for_status().json()["data"]
    return [video["id"] for video in data if video["prompt"] == prompt]


def until(condition: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Wait for a condition, or fail. It must be one that stays."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not so within {seconds} s"
        time.sleep(0.02)


def begun(client: httpx.Client, video_id: str) -> None:
    """Wait until a worker has begun the job, which must be one that does not end by itself."""
    until(lambda: client.get(f"/v1/videos/{video_id}").json()["status"] == "in_progress")


def png(width: int = 64, height: int = 32) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((width, height)).convert("RGB").save(buffer, "PNG")
    return buffer.getvalue()
