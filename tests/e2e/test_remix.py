"""Videos that start from another one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.e2e.requests import ENDLESS, SMALL, make, png
from tests.serving import finished

FORM = dict[str, tuple[str | None, str | bytes]]


def completed(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    created = client.post("/v1/videos", json=SMALL | fields).raise_for_status().json()
    return finished(client, created["id"])


def content(client: httpx.Client, video: dict[str, Any]) -> bytes:
    return client.get(f"/v1/videos/{video['id']}/content").raise_for_status().content


def remix(client: httpx.Client, source: dict[str, Any], **fields: Any) -> dict[str, Any]:
    created = client.post(f"/v1/videos/{source['id']}/remix", json=fields).raise_for_status().json()
    assert created["remixed_from_video_id"] == source["id"]
    return finished(client, created["id"])


def test_a_remix_takes_over_all_but_the_prompt(client: httpx.Client) -> None:
    """Size, length, rate, seed, steps, zeros, format: with the same prompt it is the same video."""
    asked = {
        "fps": 23.976,
        "guidance_scale_2": 0.0,
        "boundary_ratio": 0.5,
        "output_format": "pt",
        "flow_shift": 5,
    }
    source = completed(client, **asked, negative_prompt="")
    again = remix(client, source, prompt=SMALL["prompt"])
    own = {"id", "created_at", "completed_at", "expires_at", "timings", "remixed_from_video_id"}
    same = source.keys() - own
    assert {key: again[key] for key in same} == {key: source[key] for key in same}
    assert content(client, again) == content(client, source)
    assert content(client, remix(client, source, prompt="a blue square")) != content(client, source)


def test_a_remix_may_change_any_field(client: httpx.Client) -> None:
    """As JSON, or as the form that the official client would send."""
    source = completed(client)
    changed = remix(client, source, prompt="a blue square", size="48x32", seconds="0.5", fps=8, seed=0)
    assert (changed["size"], changed["num_frames"], changed["fps"], changed["seed"]) == ("48x32", 4, 8, 0)
    form: FORM = {"prompt": (None, "a blue square"), "guidance_scale": (None, "0.0")}
    created = client.post(f"/v1/videos/{source['id']}/remix", files=form).raise_for_status().json()
    assert (created["guidance_scale"], created["seed"]) == (0.0, source["seed"])


def test_a_remix_of_a_picture_starts_from_the_same_picture(client: httpx.Client) -> None:
    """The source's upload is kept as long as the source."""
    fields = {"model": "tiny-wan-i2v", "output_format": "pt"}
    form: FORM = {name: (None, str(value)) for name, value in (SMALL | fields).items()}
    created = client.post("/v1/videos", files=form | {"input_reference": ("upload", png())}).json()
    source = finished(client, created["id"])
    again = remix(client, source, prompt=SMALL["prompt"])
    assert again["model"] == "tiny-wan-i2v"
    assert content(client, again) == content(client, source)


def test_a_remix_of_what_cannot_be_remixed(client: httpx.Client) -> None:
    """Unknown: 404. Not completed: 409, which clients do not repeat. Another model or no prompt: 400."""
    assert client.post("/v1/videos/video_none/remix", json={"prompt": "x"}).status_code == 404
    running = client.post("/v1/videos", json=ENDLESS).json()
    early = client.post(f"/v1/videos/{running['id']}/remix", json={"prompt": "x"})
    assert (early.status_code, early.headers["x-should-retry"]) == (409, "false")
    client.delete(f"/v1/videos/{running['id']}")
    source = completed(client)
    for fields, param in (({"prompt": "x", "model": "tiny-wan-ti2v"}, "model"), ({"seed": 1}, "prompt")):
        refused = client.post(f"/v1/videos/{source['id']}/remix", json=fields)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("action", ["edits", "extensions"])
def test_what_needs_a_video_to_video_model(client: httpx.Client, action: str) -> None:
    """501 that says what is missing and is not repeated; but what is wrong with the request comes first."""
    source = completed(client)
    url = f"/v1/videos/{action}"
    by_id = client.post(url, json={"prompt": "x", "video": {"id": source["id"]}})
    form: FORM = {"prompt": (None, "x"), "video[id]": (None, source["id"])}
    by_form = client.post(url, files=form)
    by_file = client.post(url, files={"prompt": (None, "x"), "video": ("upload", b"bytes")})
    for response in (by_id, by_form, by_file):
        assert (response.status_code, response.headers["x-should-retry"]) == (501, "false")
        assert "video-to-video" in response.json()["error"]["message"]
    assert client.post(url, json={"prompt": "x", "video": {"id": "video_none"}}).status_code == 404
    for body, param in (
        ({"prompt": "x"}, "video"),
        ({"video": {"id": source["id"]}}, "prompt"),
        ({"prompt": "x", "video": 7}, "video"),
    ):
        refused = client.post(url, json=body)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)


def test_characters(client: httpx.Client) -> None:
    """A clear body, and no second try."""
    for response in (
        client.post("/v1/videos/characters", json={}),
        client.get("/v1/videos/characters/char_1"),
    ):
        assert (response.status_code, response.headers["x-should-retry"]) == (501, "false")
        assert response.json()["error"]["code"] == "not_supported"
    make(client)
