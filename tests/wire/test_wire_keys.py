"""With API keys: every path by every method is closed, but two."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.wire.envelope import error_of, judge
from tests.wire.instant import listening, make_app
from tests.wire.test_wire_walk import METHODS, spellings

KEY = "a-key-for-the-wire-tests"
OPEN = {"/live", "/health"}
PAGE = {"/", "/static/playground.css", "/static/playground.js"}
UNLISTED = {
    "/docs",
    "/openapi.json",
    "/nowhere",
    "/v1/chat/completions",
    "/live/more",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Without a key; the server has one."""
    app = make_app(tmp_path_factory.mktemp("keys"), auth={"keys": [{"name": "wire", "key": KEY}]})
    with listening(app) as url, httpx.Client(base_url=url, timeout=120) as opened:
        yield opened


@pytest.fixture(scope="module")
def paths(client: httpx.Client) -> list[str]:
    """Every path there is, and some that are not, in every spelling."""
    document = client.get("/openapi.json", headers={"api-key": KEY}).json()
    named = [re.sub(r"{\w+}", "x", path) for path in document["paths"]]
    return [spelling for path in (*named, *PAGE, *UNLISTED) for spelling in spellings(path)]


def test_every_path_needs_a_key_but_two(client: httpx.Client, paths: list[str]) -> None:
    """Whatever the method; the page may be loaded, and holds nothing."""
    for path in paths:
        bare = path.rstrip("/") or "/"
        for method in METHODS:
            answer = judge(client.request(method, path))
            closed = answer.status_code == 401
            assert closed == (bare not in OPEN | PAGE), (method, path, answer.status_code)
            if closed:
                assert answer.headers["www-authenticate"].startswith("Bearer"), (method, path)
            if closed and method != "HEAD":
                assert error_of(answer)["code"] == "missing_api_key", (method, path)


def test_no_path_needs_more_than_a_key(client: httpx.Client, paths: list[str]) -> None:
    """With one, nothing is 401, by either header."""
    for header in ({"authorization": f"Bearer {KEY}"}, {"api-key": KEY}):
        for path in paths:
            assert client.get(path, headers=header).status_code != 401, path


def test_official_clients_understand_the_refusal(client: httpx.Client) -> None:
    """openai-python raises what it has for a wrong key, and lists with the right one."""
    openai = pytest.importorskip("openai")
    url = f"{client.base_url}/v1"
    with (
        openai.OpenAI(base_url=url, api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError) as refused,
    ):
        stranger.models.list()
    assert refused.value.code == "invalid_api_key"
    with openai.OpenAI(base_url=url, api_key=KEY) as known:
        assert known.models.list().data
