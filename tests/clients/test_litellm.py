"""The LiteLLM SDK, with both of its providers that speak this wire format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.clients.request_log import DOCUMENT, Taken, documented, take

pytestmark = pytest.mark.litellm


@pytest.fixture(scope="module", params=["litellm-openai", "litellm-hosted-vllm"])
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def walk(client: str, url: str) -> Taken:
    return take(client, url)


@pytest.fixture(scope="module")
def told(walk: Taken) -> dict[str, Any]:
    """What came of each call."""
    outcomes: dict[str, Any] = json.loads(walk.printed)
    return outcomes


def test_the_log_is_what_the_client_sends(client: str, walk: Taken) -> None:
    """Renew it with `python -m scripts.client_log` after an update."""
    assert walk.table == documented(client, DOCUMENT.read_text())


def test_a_video_from_create_to_its_bytes(told: dict[str, Any]) -> None:
    """Its types take every answer; the file and the preview come back."""
    assert (told["made"]["status"], told["made"]["size"]) == ("queued", "64x32")
    assert (told["ended"]["status"], told["ended"]["progress"]) == ("completed", 100)
    assert told["bytes"] > 1000
    assert told["thumbnail"] > 100


def test_a_picture_and_the_async_client(told: dict[str, Any]) -> None:
    """Both are taken."""
    assert told["pictured"]["model"] == "tiny-wan-ti2v"
    assert told["async"]["model"] == "tiny-wan-t2v"


def test_what_starts_from_a_video(told: dict[str, Any]) -> None:
    """A remix is made; what has no model yet says so, with 501."""
    assert told["remix"]["remixed_from_video_id"].startswith("video_")
    for call in ("edit", "extend"):
        assert told[call]["status"] == 501
        assert '"code":"not_supported"' in told[call]["message"]


def test_pages(told: dict[str, Any]) -> None:
    """A page of two, after a video that the SDK calls by an identifier of its own."""
    assert [video["object"] for video in told["list"]["data"]] == ["video", "video"]
    assert told["list"]["first_id"] == told["list"]["data"][0]["id"]


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        ("bad", "BadRequestError", '"param":"guidance_scale","code":"invalid_value"'),
        ("unknown model", "NotFoundError", '"param":"model","code":"model_not_found"'),
        ("unknown video", "NotFoundError", '"code":"video_not_found"'),
    ],
)
def test_errors_are_the_clients_own(told: dict[str, Any], call: str, error: str, part: str) -> None:
    """By class, with the field and the code in the message."""
    assert told[call]["error"] == error
    assert part in told[call]["message"]
