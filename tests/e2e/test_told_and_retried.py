"""Webhooks and repeated requests against the real server, by the official Python client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import httpx
import openai
import pytest

from benchmarks.scrape import Scrape
from tests.clients.official import DEPRECATED
from tests.e2e.requests import SMALL, until
from tests.server.receiver import SECRET, receiving
from tests.serving import LIGHT, Served, finished, start

pytestmark = DEPRECATED


def test_an_event_outlives_a_killed_server(tmp_path: Path) -> None:
    """Refused by its receiver, `kill -9`, delivered by the next server with the same id."""
    with receiving() as receiver:
        receiver.status = 503
        hooks = json.dumps([{"url": receiver.url, "secret": SECRET, "allow_private": True}])
        server = start(tmp_path, **LIGHT, REELSERVE_WEBHOOKS=hooks)
        with server.client() as client:
            video_id = client.post("/v1/videos", json=SMALL).raise_for_status().json()["id"]
            assert finished(client, video_id)["status"] == "completed"
        refused = receiver.wait(1)
        server.process.kill()
        server.ended(10)
        receiver.status, before = 204, len(receiver.received)
        again = start(tmp_path, **LIGHT, REELSERVE_WEBHOOKS=hooks)
        try:
            received = receiver.wait(before + 1, 30)[-1]
        finally:
            assert again.stop() == 0
    log = again.log.read_text()
    assert received.headers["webhook-id"] == refused[0].headers["webhook-id"]
    with openai.OpenAI(api_key="none", webhook_secret=SECRET) as api:
        event = api.webhooks.unwrap(received.body, received.headers)
    assert (event.type, event.data.id) == ("video.completed", video_id)  # type: ignore[union-attr]
    assert "token" not in log
    assert SECRET not in log


class _Breaking(ThreadingHTTPServer):
    """Passes requests on, and drops the answers to the first `breaks` of them."""

    daemon_threads = True

    def __init__(self, target: str, breaks: int) -> None:
        super().__init__(("127.0.0.1", 0), _BreakingHandler)
        self.target = target
        self.breaks = breaks
        self.keys: list[str | None] = []


class _BreakingHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        proxy = cast(_Breaking, self.server)
        body = self.rfile.read(int(self.headers["content-length"]))
        kept = ("content-type", "idempotency-key")
        headers = {name: self.headers[name] for name in kept if name in self.headers}
        proxy.keys.append(headers.get("idempotency-key"))
        answer = httpx.post(proxy.target + self.path, content=body, headers=headers, timeout=60)
        self.close_connection = True
        if len(proxy.keys) > proxy.breaks:
            self.send_response(answer.status_code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Tests need no access log."""


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server whose jobs take as long as their prompts say."""
    server = start(tmp_path_factory.mktemp("light"), **LIGHT)
    yield server
    assert server.stop() == 0, server.log.read_text()


@pytest.fixture
def client(light: Served) -> Iterator[httpx.Client]:
    with light.client() as opened:
        yield opened


@pytest.fixture
def breaking(light: Served) -> Iterator[_Breaking]:
    with _Breaking(light.url, breaks=2) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


def jobs(client: httpx.Client, prompt: str) -> list[str]:
    data = client.get("/v1/videos", params={"limit": 100}).raise_for_status().json()["data"]
    return [video["id"] for video in data if video["prompt"] == prompt]


def test_the_clients_own_retries_make_one_job(client: httpx.Client, breaking: _Breaking) -> None:
    """Two answers are lost on the way; with a key, the third attempt is told of the first one's job."""
    prompt = "a circle with a key"
    with openai.OpenAI(base_url=f"http://127.0.0.1:{breaking.server_port}/v1", api_key="none") as api:
        extra = {name: value for name, value in SMALL.items() if name != "prompt"}
        video = api.videos.create(
            prompt=prompt, extra_body=extra, extra_headers={"Idempotency-Key": "order-77"}
        )
    assert breaking.keys == ["order-77"] * 3
    assert jobs(client, prompt) == [video.id]
    assert finished(client, video.id)["status"] == "completed"


def answered(client: httpx.Client) -> float:
    """How many waiting requests have come to their end."""
    return Scrape(client.get("/metrics").text).total("reelserve_http_requests_total", route="/v1/videos/sync")


def test_a_client_that_asks_again_keeps_its_job(client: httpx.Client, tmp_path: Path) -> None:
    """Its first connection ends while the second waits: one job, which goes on, and the video comes."""
    gone = tmp_path / "gone"
    headers, prompt, before = {"Idempotency-Key": "order-78"}, f"fault:held={gone}", answered(client)
    body = SMALL | {"prompt": prompt}
    with httpx.Client(base_url=client.base_url, timeout=2.5) as impatient, ThreadPoolExecutor(2) as pool:
        first = pool.submit(impatient.post, "/v1/videos/sync", json=body, headers=headers)
        until(lambda: bool(jobs(client, prompt)), 30)
        second = pool.submit(client.post, "/v1/videos/sync", json=body, headers=headers)
        assert isinstance(first.exception(), httpx.ReadTimeout)
        until(lambda: answered(client) > before, 30)
        gone.touch()
        answer = second.result(90)
    assert answer.status_code == 200
    assert jobs(client, prompt) == [answer.headers["x-video-id"]]


def test_a_client_that_comes_back_gets_its_video(client: httpx.Client, tmp_path: Path) -> None:
    """It was gone before it asked again: the first job was stopped, and the video is made anew."""
    headers, prompt = {"Idempotency-Key": "order-79"}, f"fault:sleep=4 once:{tmp_path / 'once'}"
    body = SMALL | {"prompt": prompt}
    with pytest.raises(httpx.ReadTimeout):
        client.post("/v1/videos/sync", json=body, headers=headers, timeout=0.5)
    answer = client.post("/v1/videos/sync", json=body, headers=headers)
    assert answer.status_code == 200
    made, stopped = jobs(client, prompt)
    assert answer.headers["x-video-id"] == made
    assert client.get(f"/v1/videos/{stopped}").json()["error"]["code"] == "cancelled"
