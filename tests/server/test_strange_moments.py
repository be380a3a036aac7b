"""Jobs that wait again, workers that do not come, and clocks that are wrong."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from server.jobs import JobStatus
from tests.server.bench import WAIT_S, Bench
from tests.server.running import serving
from tests.server.scripted import new_job

pytestmark = pytest.mark.usefixtures("database_url")


async def test_progress_does_not_fall_when_a_job_runs_again(tmp_path: Path) -> None:
    """Not in the queue, not in the second run, and not after a stop."""
    async with serving(tmp_path) as server:
        job_id = (await server.post()).json()["id"]

        async def seen(status: str, least: int = 0) -> int:
            async with asyncio.timeout(WAIT_S):
                while True:
                    video = (await server.client.get(f"/v1/videos/{job_id}")).json()
                    if video["status"] == status and video["progress"] >= least:
                        return int(video["progress"])
                    await asyncio.sleep(0.005)

        await server.begun()
        server.engine.progress(job_id, 3, 4)
        reached = await seen("in_progress", 1)
        idle = asyncio.Event()
        server.engine.wait_idle = idle.wait  # type: ignore[assignment,method-assign]
        server.engine.fail(job_id, "worker_crashed", victim=True)
        assert await seen("queued") == reached
        idle.set()
        await server.begun(2)
        assert await seen("in_progress") == reached
        server.engine.progress(job_id, 1, 4)
        server.engine.progress(job_id, 4, 4)
        reached = await seen("in_progress", reached + 1)
    async with serving(tmp_path) as server:
        await server.begun()
        assert await seen("in_progress") == reached
        await server.finish()
        assert await seen("completed") == 100


async def test_a_listener_hears_that_a_job_waits_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while no worker is there to begin another."""
    job = new_job()
    live, roster = await bench.dispatcher.submit(job), bench.dispatcher.roster
    async with asyncio.timeout(WAIT_S):
        while live.job.attempts == 0:
            await asyncio.sleep(0.005)
    monkeypatch.setattr(bench.engine, "wait_idle", asyncio.Event().wait)
    bench.engine.fail(job.id, "worker_crashed", victim=True)
    async with asyncio.timeout(WAIT_S):
        change = roster.changes.next()
        while job.id not in roster.queue:
            await change.wait()
            change = roster.changes.next()
    assert (await bench.store.get(job.id)).status is JobStatus.QUEUED


async def test_a_job_that_leaves_as_it_comes(bench: Bench) -> None:
    """It is cancelled before whoever hands out jobs has woken up: the next one is handed out all the same."""
    await asyncio.sleep(0.01)  # it waits for a job now
    bench.dispatcher.roster.queue.push("gone", "")
    bench.dispatcher.roster.queue.remove("gone")
    await asyncio.sleep(0.01)
    job = new_job()
    await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)


async def test_a_job_waits_in_its_place_while_no_worker_is_idle(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that has died since the last job takes none out of the queue."""
    await asyncio.sleep(0.01)  # the worker was idle when this began
    idle = asyncio.Event()
    monkeypatch.setattr(bench.engine, "wait_idle", idle.wait)
    jobs = [new_job(), new_job()]
    for job in jobs:
        await bench.dispatcher.submit(job)
    await asyncio.sleep(0.01)
    assert [bench.dispatcher.roster.queue.position(job.id) for job in jobs] == [0, 1]
    idle.set()
    await bench.status(jobs[0], JobStatus.IN_PROGRESS)


async def test_nobody_waits_for_a_worker_that_never_comes(tmp_path: Path) -> None:
    """The last one stays down: whoever waits is told so, and the other job is for the next server."""
    async with serving(tmp_path) as server:
        idle = asyncio.Event()
        server.engine.wait_idle = idle.wait  # type: ignore[assignment,method-assign]
        queued = (await server.post()).json()["id"]
        waiting = asyncio.create_task(server.post("/v1/videos/sync"))
        while len(server.services.dispatcher.roster.lives()) < 2:
            await asyncio.sleep(0.005)
        server.engine.failure = "it does not start"
        server.engine.worker_ended("crashed")
        answer = await asyncio.wait_for(waiting, WAIT_S)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "worker_crashed")
        assert (await server.client.get(f"/v1/videos/{queued}")).json()["status"] == "queued"


async def test_a_clock_that_is_set_back(bench: Bench) -> None:
    """No time is negative."""
    job = new_job(created_us=time.time_ns() // 1000 + 3600 * 10**6)
    await bench.dispatcher.submit(job)
    await bench.begun(1)
    bench.engine.finish(job.id)
    done = await bench.status(job, JobStatus.COMPLETED)
    assert (done.timings["queue"], done.timings["total"]) == (0, 0)
