"""Requests that wait: their answer is made of what the job's last move left, and is true when it comes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from server.jobs import Job, JobStatus
from server.store import Store
from tests.server.running import Server

pytestmark = pytest.mark.usefixtures("database_url")

Then = Callable[[Store, str], Awaitable[object]]


async def _gone(store: Store, job_id: str) -> None:
    await store.delete(job_id)


async def _expired(store: Store, job_id: str) -> None:
    await store.expire(job_id, time.time_ns() // 1000)


async def _cut_off(_store: Store, _job_id: str) -> None:
    raise ConnectionAbortedError


def after_the_end(server: Server, monkeypatch: pytest.MonkeyPatch, then: Then) -> None:
    """Have `then` done as soon as a job is on record as completed, before anybody is told."""
    store, move = server.services.store, server.services.store.move

    async def moved(job_id: str, status: JobStatus, **changes: Any) -> Job:
        job = await move(job_id, status, **changes)
        if status is JobStatus.COMPLETED:
            await then(store, job_id)
        return job

    monkeypatch.setattr(store, "move", moved)


async def answered(server: Server, **fields: Any) -> httpx.Response:
    """The answer to a request that waits for a job which the engine finishes."""
    waiting = asyncio.create_task(server.post("/v1/videos/sync", **fields))
    server.engine.finish(await server.begun())
    return await waiting


@pytest.fixture
def asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of all jobs whose row was read."""
    ids: list[str] = []
    get = server.services.store.get

    async def noted(job_id: str) -> Job:
        ids.append(job_id)
        return await get(job_id)

    monkeypatch.setattr(server.services.store, "get", noted)
    return ids


@pytest.mark.parametrize("form", ["video_bytes", "b64_json", "url"])
async def test_an_answer_costs_no_query(server: Server, asked: list[str], form: str) -> None:
    """What the row says is known already; a look at the job says the same."""
    answer = await answered(server, response_format=form)
    assert (answer.status_code, asked) == (200, [])
    video = (await server.client.get(f"/v1/videos/{answer.headers['x-video-id']}")).json()
    assert asked == [video["id"]]
    assert video["status"] == "completed"
    told = dict(part.split(";dur=") for part in answer.headers["server-timing"].split(", "))
    assert {name: float(value) for name, value in told.items()} == pytest.approx(video["timings"], abs=0.1)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_failure_costs_no_query(server: Server, asked: list[str], stream: bool) -> None:
    """Its code is that of the job."""
    waiting = asyncio.create_task(server.post("/v1/videos/sync", stream=stream))
    job_id = await server.begun()
    server.engine.fail(job_id, "out_of_memory")
    answer = await waiting
    assert (answer.status_code, answer.json()["error"]["code"], asked) == (500, "out_of_memory", [])
    assert (await server.client.get(f"/v1/videos/{job_id}")).json()["error"]["code"] == "out_of_memory"


@pytest.mark.parametrize(("then", "code"), [(_gone, "video_not_found"), (_expired, "video_expired")])
@pytest.mark.parametrize("form", ["video_bytes", "b64_json"])
async def test_a_file_that_is_gone_by_then(
    server: Server, monkeypatch: pytest.MonkeyPatch, then: Then, code: str, form: str
) -> None:
    """Between the job's end and the answer it was deleted, or ran out: the client is told which."""

    async def removed(store: Store, job_id: str) -> None:
        await then(store, job_id)
        server.services.artifacts.remove(job_id)

    after_the_end(server, monkeypatch, removed)
    answer = await answered(server, response_format=form)
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)


async def test_a_last_move_whose_answer_was_lost(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is completed by its row, and this process was not told: the row counts."""
    after_the_end(server, monkeypatch, _cut_off)
    answer = await answered(server)
    assert (answer.status_code, answer.content) == (200, b"video")
