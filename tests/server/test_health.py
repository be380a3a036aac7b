from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.server.door import CAPABILITIES
from tests.server.running import serving
from tests.wire.envelope import error_of
from tests.wire.instant import make_app


async def ask(path: str, data: Path, **engine: object) -> httpx.Response:
    app = make_app(data)
    for name, value in engine.items():
        setattr(app.state.services.engine, name, value)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path)


async def test_a_ready_server_is_healthy(tmp_path: Path) -> None:
    """It says what it runs on and how much waits."""
    answer = await ask("/health", tmp_path)
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "device": CAPABILITIES.device, "queued": 0}


@pytest.mark.parametrize(
    ("engine", "word"),
    [
        ({"ready": False}, "restarted"),
        ({"ready": False, "capabilities": None}, "loaded"),
        ({"ready": False, "failure": "no such file: /models/wan"}, "log"),
    ],
)
@pytest.mark.parametrize("path", ["/health", "/v1/models"])
async def test_an_unready_server_says_so(
    tmp_path: Path, path: str, engine: dict[str, object], word: str
) -> None:
    """503 in the envelope, with when to ask again, and without where the models lie."""
    answer = await ask(path, tmp_path, **engine)
    if path == "/v1/models" and "loaded" not in word and "log" not in word:
        assert answer.status_code == 200  # what is served is known while a worker restarts
        return
    assert (answer.status_code, error_of(answer)["code"]) == (503, "not_ready")
    assert word in error_of(answer)["message"]
    assert 0 < int(answer.headers["retry-after"]) <= 60
    assert "/models/wan" not in answer.text


async def test_a_server_without_workers_is_alive(tmp_path: Path) -> None:
    """The process answers, whatever its workers do."""
    assert (await ask("/live", tmp_path, ready=False)).json() == {"status": "ok"}


async def test_finished_videos_outlive_the_last_worker(tmp_path: Path) -> None:
    """When none can be started any more, files and jobs are there to be fetched; nothing new is taken."""
    async with serving(tmp_path) as server:
        await server.post()
        done = await server.finish()
        server.engine.ready, server.engine.failure = False, "the worker stays down"
        assert (await server.client.get(f"/v1/videos/{done}/content")).status_code == 200
        assert (await server.client.get(f"/v1/videos/{done}")).json()["status"] == "completed"
        refused = await server.post()
        assert (refused.status_code, error_of(refused)["code"]) == (503, "not_ready")
        assert (await server.client.get("/health")).status_code == 503
        assert (await server.client.delete(f"/v1/videos/{done}")).status_code == 200
