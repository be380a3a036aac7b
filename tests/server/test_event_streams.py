from __future__ import annotations

import asyncio
from pathlib import Path

import fastapi.routing
import pytest

from tests.server.running import serving


async def test_a_quiet_stream_shows_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two events comments are sent, which proxies take as traffic and clients pass over."""
    monkeypatch.setattr(fastapi.routing, "_PING_INTERVAL", 0.05)  # of 15 s
    async with serving(tmp_path) as server:
        await server.post()
        job_id = await server.begun()
        reading = asyncio.create_task(server.client.get(f"/v1/videos/{job_id}/events"))
        await asyncio.sleep(0.3)
        await server.finish()
        lines = (await reading).text.splitlines()
    comments = [line for line in lines if line.startswith(":")]
    assert len(comments) >= 2
    assert lines.index(comments[0]) > lines.index("event: progress")
    assert [line for line in lines if line.startswith("event:")][-1] == "event: completed"


async def test_events_of_two_listeners(tmp_path: Path) -> None:
    """Both hear the same, and one that leaves does not end the other's stream."""
    async with serving(tmp_path) as server:
        await server.post()
        job_id = await server.begun()
        first, second = (
            asyncio.create_task(server.client.get(f"/v1/videos/{job_id}/events")) for _ in range(2)
        )
        await asyncio.sleep(0.05)
        first.cancel()
        server.engine.progress(job_id, 2, 4)
        await server.finish()
        text = (await second).text
    assert '"step":2,"steps":4' in text
    assert text.rstrip().splitlines()[-2] == "event: completed"


async def test_a_stream_ends_when_its_job_is_left_to_the_next_server(tmp_path: Path) -> None:
    """The job is queued, and nothing more will happen to it here: no listener holds up the stop."""
    async with serving(tmp_path) as server:
        await server.post()
        await server.begun()
        queued = (await server.post()).json()["id"]
        reading = asyncio.create_task(server.client.get(f"/v1/videos/{queued}/events"))
        await asyncio.sleep(0.05)
        await server.services.dispatcher.stop()
        text = (await asyncio.wait_for(reading, 5)).text
    assert text.rstrip().splitlines()[-1].count('"status":"queued"') == 1
