"""SIGTERM: what runs may finish within limits, and nothing that a client does holds it longer."""

from __future__ import annotations

import signal
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.e2e.requests import SMALL, begun, make, until
from tests.serving import LIGHT, Served, start, to_be_hurt

DRAIN_S, MARGIN_S = 60.0, 30.0
"""The margin is for a busy machine; what must not be waited for takes minutes."""


@pytest.fixture
def light(tmp_path: Path) -> Iterator[Served]:
    """A server whose worker takes as long as a prompt says."""
    drain = ("--server.shutdown_s", str(int(DRAIN_S)))
    yield from to_be_hurt(start(tmp_path / "data", *drain, **LIGHT))


def create(client: httpx.Client, seconds: float = 0) -> str:
    """A job that sleeps in its first step."""
    prompt = {"prompt": f"fault:sleep={seconds}"} if seconds else {}
    video_id: str = client.post("/v1/videos", json=SMALL | prompt).raise_for_status().json()["id"]
    return video_id


def statuses(server: Served) -> dict[str, tuple[str, int]]:
    """Status and attempts of every job, as the next server will find them."""
    with closing(sqlite3.connect(server.data / "jobs.sqlite3")) as database:
        rows = database.execute("SELECT id, status, attempts FROM jobs")
        return {video_id: (status, attempts) for video_id, status, attempts in rows}


def test_a_drain_lets_the_running_job_finish(light: Served) -> None:
    """Reads and waiting clients are answered to the end, new work is refused, the queue stays for the next
    server; a download that is not read holds nothing up."""
    with light.client() as client, light.client() as lazy:
        done = make(client).headers["x-video-id"]
        file = light.artifacts / done / "video.mp4"
        file.write_bytes(bytes(64 * 2**20))
        with lazy.stream("GET", f"/v1/videos/{done}/content") as download:
            assert download.status_code == 200
            running, waiting = create(client, 3), create(client)
            begun(client, running)
            stopped = time.monotonic()
            light.process.send_signal(signal.SIGTERM)
            until(lambda: client.get("/health").status_code == 503, 30)
            assert client.get(f"/v1/videos/{running}").json()["status"] == "in_progress"
            refused = client.post("/v1/videos", json=SMALL)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")
            assert int(refused.headers["retry-after"]) > 0
            assert light.ended(DRAIN_S + MARGIN_S) == 0
    assert time.monotonic() - stopped < DRAIN_S
    assert "Traceback" not in light.log.read_text()
    found = statuses(light)
    assert (found[running], found[waiting]) == (("completed", 1), ("queued", 0))


def test_the_second_signal_stops_at_once(light: Served) -> None:
    """The job that ran is in the queue again, as if it had not been begun."""
    with light.client() as client:
        running = create(client, 100)
        begun(client, running)
        light.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/health").status_code == 503, 30)
        stopped = time.monotonic()
        light.process.send_signal(signal.SIGTERM)
        assert light.ended(DRAIN_S) == 0
    assert time.monotonic() - stopped < MARGIN_S
    assert statuses(light) == {running: ("queued", 0)}


def test_what_takes_longer_than_the_drain(tmp_path: Path) -> None:
    """By configuration it fails; whoever waits for it is told so before the connection ends."""
    flags = ("--server.shutdown_s", "1", "--queue.on_restart", "fail")
    server = start(tmp_path / "data", *flags, **LIGHT)
    try:
        with server.client() as client:
            running = create(client, 100)
            begun(client, running)
            events = client.stream("GET", f"/v1/videos/{running}/events")
            with events as stream:
                server.process.send_signal(signal.SIGTERM)
                told = "".join(stream.iter_text())
            assert "event: failed" in told
            assert "server_restarted" in told
            assert server.ended(MARGIN_S) == 0
        assert statuses(server) == {running: ("failed", 1)}
    finally:
        server.process.kill()
