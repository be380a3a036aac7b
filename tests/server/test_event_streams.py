from __future__ import annotations

from pathlib import Path

import fastapi.routing
import pytest

from tests.server.listening import listening
from tests.server.running import serving


async def test_a_quiet_stream_shows_that_it_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two events comments are sent, which proxies take as traffic and clients pass over."""
    monkeypatch.setattr(fastapi.routing, "_PING_INTERVAL", 0.05)  # of 15 s
    async with serving(tmp_path) as server:
        await server.post()
        job_id = await server.runs()
        async with listening(server.app, f"/v1/videos/{job_id}/events") as listener:
            await listener.hears("\n:", 2)
            await server.finish()
            lines = (await listener.end()).splitlines()
    comments = [line for line in lines if line.startswith(":")]
    assert lines.index(comments[0]) > lines.index("event: progress")
    assert [line for line in lines if line.startswith("event:")][-1] == "event: completed"


async def test_events_of_two_listeners(tmp_path: Path) -> None:
    """Both hear the same, and one that leaves does not end the other's stream."""
    async with serving(tmp_path) as server:
        await server.post()
        job_id = await server.runs()
        path = f"/v1/videos/{job_id}/events"
        async with listening(server.app, path) as first, listening(server.app, path) as second:
            server.engine.progress(job_id, 1, 4)
            for each in (first, second):
                await each.hears('"step":1,"steps":4')
            await first.leave()
            server.engine.progress(job_id, 2, 4)
            await second.hears('"step":2,"steps":4')
            await server.finish()
            text = await second.end()
        assert '"step":2' not in first.text
    assert text.rstrip().splitlines()[-2] == "event: completed"


async def test_a_stream_ends_when_its_job_is_left_to_the_next_server(tmp_path: Path) -> None:
    """The job is queued, and nothing more will happen to it here: no listener holds up the stop."""
    async with serving(tmp_path) as server:
        await server.post()
        await server.begun()
        queued = (await server.post()).json()["id"]
        async with listening(server.app, f"/v1/videos/{queued}/events") as listener:
            await listener.hears('"status":"queued"')
            await server.services.dispatcher.stop()
            text = await listener.end()
    assert text.rstrip().splitlines()[-1].count('"status":"queued"') == 1
