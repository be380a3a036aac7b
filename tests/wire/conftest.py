from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.wire.instant import listening, make_app


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real HTTP server in this process, whose engine answers at once."""
    with listening(make_app(tmp_path_factory.mktemp("wire"))) as address:
        yield address


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=120) as opened:
        yield opened


@pytest.fixture(scope="module")
def video_id(client: httpx.Client) -> str:
    """A finished video."""
    answer = client.post("/v1/videos/sync", json={"prompt": "x"}).raise_for_status()
    return answer.headers["x-video-id"]
