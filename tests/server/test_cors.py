"""Pages of other origins, as browsers ask for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.sections import ServerSettings
from tests.server.running import serving

APP, OTHER, KEY = "https://app.example", "https://other.example", "a-key-for-the-pages"
ASKS = {
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization, content-type, x-stainless-lang",
}


async def test_no_page_of_another_origin_by_default(tmp_path: Path) -> None:
    """Neither before a request nor in its answer."""
    async with serving(tmp_path) as server:
        before = await server.client.options("/v1/videos", headers={"origin": APP, **ASKS})
        after = await server.client.get("/v1/videos", headers={"origin": APP})
    assert before.status_code == 405
    for answer in (before, after):
        assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_pages_that_the_operator_names(tmp_path: Path) -> None:
    """They may send a key and read our headers, refusals too; cookies never count; others get nothing."""
    sections = {"server": {"cors_origins": [APP]}, "auth": {"keys": [{"name": "a", "key": KEY}]}}
    async with serving(tmp_path, **sections) as server:
        client = server.client
        before = await client.options("/openai/v1/videos/", headers={"origin": APP, **ASKS})
        assert before.status_code == 200
        assert before.headers["access-control-allow-origin"] == APP
        allowed = before.headers["access-control-allow-headers"].lower()
        assert all(name in allowed for name in ("authorization", "content-type", "x-stainless-lang"))
        for key, status in ((KEY, 200), ("wrong", 401)):
            answer = await client.get("/v1/videos", headers={"origin": APP, "authorization": f"Bearer {key}"})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (status, APP)
            assert "x-request-id" in answer.headers["access-control-expose-headers"]
            assert "access-control-allow-credentials" not in answer.headers
        refused = await client.options("/v1/videos", headers={"origin": OTHER, **ASKS})
        assert "access-control-allow-origin" not in refused.headers
        answer = await client.get("/v1/videos", headers={"origin": OTHER, "authorization": f"Bearer {KEY}"})
        assert "access-control-allow-origin" not in answer.headers


async def test_types_are_meant(tmp_path: Path) -> None:
    """No browser takes an upload, a video or an error for a page."""
    async with serving(tmp_path) as server:
        await server.post()
        job_id = await server.finish()
        for path in ("/", "/live", "/v1/videos", f"/v1/videos/{job_id}/content", "/nowhere", "/docs"):
            assert (await server.client.get(path)).headers["x-content-type-options"] == "nosniff", path


OWN = "http://localhost"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # no browser
        ({"origin": OWN}, 200),
        ({"origin": OWN, "sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),  # what a user asks for
        ({"origin": OTHER, "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "http://localhost:3000", "sec-fetch-site": "same-site"}, 403),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": OTHER}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://["}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
    ],
    ids=str,
)
async def test_no_page_of_another_origin_sends_anything(
    tmp_path: Path, headers: dict[str, str], status: int
) -> None:
    """Without keys; a form needs nobody's leave to be sent, only the answer to be read."""
    async with serving(tmp_path) as server:
        form = {"prompt": (None, "a red circle")}
        sent = await server.client.post("/v1/videos", files=form, headers=headers)
        assert sent.status_code == status
        assert await server.count() == (status == 200)
        if status == 403:
            assert sent.json()["error"]["code"] == "page_refused"
        assert (await server.client.get("/v1/videos", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "sections", [{"server": {"cors_origins": [OTHER]}}, {"server": {"cors_origins": ["*"]}}]
)
async def test_pages_that_the_operator_names_send_without_a_key(
    tmp_path: Path, sections: dict[str, object]
) -> None:
    """They are no strangers."""
    async with serving(tmp_path, **sections) as server:
        headers = {"origin": OTHER, "sec-fetch-site": "cross-site"}
        assert (await server.post(headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8000", 200),
        ("Reel.Localhost", 200),
        ("127.0.0.1", 200),
        ("[::1]:8000", 200),
        ("192.0.2.7:1", 200),
        ("rebound.example:8000", 403),
        ("localhost.example", 403),
        ("127.0.0.1.example", 403),
        ("[", 403),
    ],
)
async def test_a_name_that_was_made_to_mean_this_machine(tmp_path: Path, host: str, status: int) -> None:
    """Its page would be of the same origin. Who needs a key, or serves everybody, goes by any name."""
    asked = {"host": host, "api-key": KEY}
    async with serving(tmp_path / "closed") as server:
        answer = await server.client.get("/v1/videos", headers=asked)
        assert answer.status_code == status
        if status == 403:
            assert answer.json()["error"]["code"] == "unknown_host"
        assert (await server.client.get("/live", headers=asked)).status_code == 200
    named = {"server": {"allow_public": True, "hosts": ["reel.example"]}}
    async with serving(tmp_path / "named", **named) as server:
        assert (await server.client.get("/v1/videos", headers=asked)).status_code == status
        assert (await server.client.get("/v1/videos", headers={"host": "reel.example:80"})).status_code == 200
    for sections in ({"server": {"allow_public": True}}, {"auth": {"keys": [{"name": "a", "key": KEY}]}}):
        async with serving(tmp_path / next(iter(sections)), **sections) as server:
            assert (await server.client.get("/v1/videos", headers=asked)).status_code == 200


async def test_the_description_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """No script, and only our own style; it names every route."""
    async with serving(tmp_path) as server:
        page = await server.client.get("/docs")
        paths = (await server.client.get("/openapi.json")).json()["paths"]
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert re.findall(r"<script|(?:src|href)=\"([^\"]*)", page.text) == [
        "static/playground.css",
        "openapi.json",
    ]
    assert all(path in page.text for path in paths)


@pytest.mark.parametrize(
    "origin", ["app.example", "https://app.example/", "https://A.example", "null", "", "**"]
)
def test_what_is_no_origin(origin: str) -> None:
    """It would never fit."""
    with pytest.raises(ValueError, match="is no origin"):
        ServerSettings(cors_origins=(origin,))
