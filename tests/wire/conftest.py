from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import httpx
import pytest
import uvicorn

from tests.wire.instant import make_app


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real HTTP server in this process, whose engine answers at once."""
    app = make_app(tmp_path_factory.mktemp("wire"))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(30)


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=30) as opened:
        yield opened


@pytest.fixture(scope="module")
def video_id(client: httpx.Client) -> str:
    """A finished video."""
    answer = client.post("/v1/videos/sync", json={"prompt": "x"}).raise_for_status()
    return answer.headers["x-video-id"]
