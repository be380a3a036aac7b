"""SIGTERM: what runs may finish within limits, and nothing that a client does holds it longer."""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.e2e.requests import SMALL, begun, make, until
from tests.serving import LIGHT, Served, start, to_be_hurt

DRAIN_S = 600
"""Longer than any test waits: no server here ends because this time is over."""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """A server whose worker takes as long as a prompt says."""
    yield from to_be_hurt(start(tmp_path / "data", "--server.shutdown_s", str(DRAIN_S), **LIGHT))


def create(client: httpx.Client, until_there: Path | None = None) -> str:
    """A job that goes on until there is a file of that name."""
    prompt = {"prompt": f"fault:held={until_there}"} if until_there is not None else {}
    video_id: str = client.post("/v1/videos", json=SMALL | prompt).raise_for_status().json()["id"]
    return video_id


def statuses(server: Served) -> dict[str, tuple[str, int]]:
    """Status and attempts of every job, as the next server will find them."""
    with closing(sqlite3.connect(server.data / "jobs.sqlite3")) as database:
        rows = database.execute("SELECT id, status, attempts FROM jobs")
        return {video_id: (status, attempts) for video_id, status, attempts in rows}


def test_a_drain_lets_the_running_job_finish(own: Served, tmp_path: Path) -> None:
    """Reads and waiting clients are answered to the end, new work is refused, the queue stays for the next
    server; a download that is not read holds nothing up."""
    with own.client() as client, own.client() as lazy:
        done = make(client).headers["x-video-id"]
        file = own.artifacts / done / "video.mp4"
        file.write_bytes(bytes(64 * 2**20))
        with lazy.stream("GET", f"/v1/videos/{done}/content") as download:
            assert download.status_code == 200
            running, waiting = create(client, tmp_path / "may_end"), create(client)
            begun(client, running)
            own.process.send_signal(signal.SIGTERM)
            until(lambda: client.get("/health").status_code == 503)
            assert client.get(f"/v1/videos/{running}").json()["status"] == "in_progress"
            refused = client.post("/v1/videos", json=SMALL)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")
            assert int(refused.headers["retry-after"]) > 0
            (tmp_path / "may_end").touch()
            assert own.ended() == 0
    assert "Traceback" not in own.log.read_text()
    found = statuses(own)
    assert (found[running], found[waiting]) == (("completed", 1), ("queued", 0))


def test_the_second_signal_stops_at_once(own: Served, tmp_path: Path) -> None:
    """The job that ran is in the queue again, as if it had not been begun."""
    with own.client() as client:
        running = create(client, tmp_path / "never")
        begun(client, running)
        own.process.send_signal(signal.SIGTERM)
        until(lambda: client.get("/health").status_code == 503)
        own.process.send_signal(signal.SIGTERM)
        assert own.ended() == 0
    assert statuses(own) == {running: ("queued", 0)}


def test_what_takes_longer_than_the_drain(tmp_path: Path) -> None:
    """By configuration it fails; whoever waits for it is told so before the connection ends."""
    flags = ("--server.shutdown_s", "1", "--queue.on_restart", "fail")
    server = start(tmp_path / "data", *flags, **LIGHT)
    try:
        with server.client() as client:
            running = create(client, tmp_path / "never")
            begun(client, running)
            events = client.stream("GET", f"/v1/videos/{running}/events")
            with events as stream:
                server.process.send_signal(signal.SIGTERM)
                told = "".join(stream.iter_text())
            assert "event: failed" in told
            assert "server_restarted" in told
            assert server.ended() == 0
        assert statuses(server) == {running: ("failed", 1)}
    finally:
        server.process.kill()
