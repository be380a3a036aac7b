"""Webhooks and repeated requests against the real server, by the official Python client."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import httpx
import openai
import pytest

from benchmarks.scrape import Scrape
from tests.clients.official import DEPRECATED
from tests.e2e.requests import SMALL, jobs, until, waiting
from tests.server.receiver import SECRET, receiving
from tests.serving import LIGHT, PATIENCE_S, Served, finished, start

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
            refused = receiver.wait(1, PATIENCE_S)
            # Noted as due again soon; the attempt of a server that was killed in it would be so later on.
            until(lambda: counted(client, "webhook_attempts", outcome="failed") > 0)
        server.process.kill()
        server.ended()
        receiver.status, before = 204, len(receiver.received)
        again = start(tmp_path, **LIGHT, REELSERVE_WEBHOOKS=hooks)
        try:
            received = receiver.wait(before + 1, PATIENCE_S)[-1]
            with again.client() as client:
                until(lambda: counted(client, "webhook_attempts", outcome="delivered") > 0)
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
        answer = httpx.post(proxy.target + self.path, content=body, headers=headers, timeout=PATIENCE_S)
        self.close_connection = True
        if len(proxy.keys) > proxy.breaks:
            self.send_response(answer.status_code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        """Tests need no access log."""


@pytest.fixture
def served(light: Served) -> Served:
    """`client` is one of that server here."""
    return light


@pytest.fixture
def breaking(light: Served) -> Iterator[_Breaking]:
    with _Breaking(light.url, breaks=2) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()


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


def counted(client: httpx.Client, name: str, **labels: str) -> float:
    """What the server's metric counts."""
    return Scrape(client.get("/metrics").text).total(f"reelserve_{name}_total", **labels)


def test_a_client_that_comes_back_gets_its_video(client: httpx.Client, tmp_path: Path) -> None:
    """It was gone before it asked again: the first job was stopped, and the video is made anew."""
    headers = {"Idempotency-Key": "order-79"}
    prompt = f"fault:paused={tmp_path / 'never'} once:{tmp_path / 'once'}"
    body = SMALL | {"prompt": prompt}
    with waiting(client, body, **headers) as stopped:
        until((tmp_path / "once").exists)
    assert finished(client, stopped)["error"]["code"] == "cancelled"  # type: ignore[index]
    answer = client.post("/v1/videos/sync", json=body, headers=headers)
    assert answer.status_code == 200
    assert jobs(client, prompt) == [answer.headers["x-video-id"], stopped]
