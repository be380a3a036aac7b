"""What a server without room says, and what it still does."""

from __future__ import annotations

import httpx

from tests.server.running import Server


def refused(answer: httpx.Response) -> None:
    """507 in the envelope, which clients try again after a while; no path in it."""
    assert (answer.status_code, answer.headers["retry-after"]) == (507, "10"), answer.text
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("server_error", None, "storage_failed")
    assert "/" not in error["message"]
    assert "x-should-retry" not in answer.headers


async def reads_work(server: Server, job_id: str) -> None:
    """Whatever looks at a finished video needs no room."""
    for path in ("/live", "/health", "/metrics", "/v1/models", "/v1/videos", f"/v1/videos/{job_id}"):
        answer = await server.client.get(path)
        assert answer.status_code == 200, (path, answer.text)
    content = await server.client.get(f"/v1/videos/{job_id}/content")
    assert (content.status_code, content.content) == (200, b"video")
