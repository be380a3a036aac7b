"""Pages of other origins, as browsers ask for them."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    "origin", ["app.example", "https://app.example/", "https://A.example", "null", "", "**"]
)
def test_what_is_no_origin(origin: str) -> None:
    """It would never fit."""
    with pytest.raises(ValueError, match="is no origin"):
        ServerSettings(cors_origins=(origin,))
