"""Cancels, crashes and stops that meet each other."""

from __future__ import annotations

import asyncio
import errno
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.engine.base import EngineTask, Failed
from server.engine.local import LocalEngine
from server.errors import NotReady, StoreUnavailable
from server.jobs import Job, JobStatus
from server.sections import EngineSettings
from tests.server.bench import Bench, dispatching
from tests.server.running import serving
from tests.server.scripted import ScriptedEngine, new_job
from tests.server.test_dispatcher_restarts import error_code, killed
from tests.server.test_local_engine import events_of, task_in

pytestmark = pytest.mark.usefixtures("database_url")


@pytest.mark.parametrize("begun", [True, False])
async def test_a_cancel_that_a_stop_overtakes(bench: Bench, begun: bool) -> None:
    """The client was told that the job is cancelled: no later server runs it."""
    first, job = new_job(created_us=1), new_job(created_us=2)
    for made in (first, job):
        await bench.dispatcher.submit(made)
    if begun:
        bench.engine.free(await _first(bench))
    await bench.begun(2 if begun else 1)
    await bench.status(job if begun else first, JobStatus.IN_PROGRESS)
    bench.engine.deaf = True
    cancelling = asyncio.create_task(bench.dispatcher.cancel(job.id))
    while bench.dispatcher.roster.live(job.id).cancelled is None:  # type: ignore[union-attr]
        await asyncio.sleep(0)
    await bench.dispatcher.stop()
    assert error_code(await cancelling) == "cancelled"
    assert (await bench.store.get(job.id)).status is JobStatus.FAILED
    assert (await bench.store.get(first.id)).status is JobStatus.QUEUED


async def test_a_stop_as_the_end_of_a_job_is_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The database has it, and nobody was told so: it counts, and the job's files go."""
    job, move, written = new_job(), bench.store.move, asyncio.Event()
    await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)

    async def cut_off(*arguments: Any, **changes: Any) -> Job:
        await move(*arguments, **changes)
        written.set()
        await asyncio.Event().wait()
        raise AssertionError

    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "move", cut_off)
        bench.dispatcher.abandon_soon(job.id)
        await written.wait()
    await bench.dispatcher.stop()
    assert error_code(await bench.store.get(job.id)) == "cancelled"
    assert bench.artifacts.ids() == []
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_job_that_was_left_to_the_next_server(bench: Bench) -> None:
    """While the last answers are sent it is queued: it cannot be cancelled now, and can be deleted."""
    first, job = new_job(), new_job()
    for made in (first, job):
        await bench.dispatcher.submit(made)
    await bench.dispatcher.stop()
    with pytest.raises(NotReady, match="stopping"):
        await bench.dispatcher.cancel(job.id)
    await bench.dispatcher.delete(job.id)
    assert await bench.store.ids() == {first.id}


async def _first(bench: Bench) -> str:
    await bench.begun(1)
    return bench.engine.begun[0]


async def test_a_job_that_no_worker_has_begun_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handed out and not begun, it has not run: whatever `on_restart` says, the next server runs it."""
    async with dispatching(tmp_path, on_restart="fail") as bench:
        handed = asyncio.Event()

        async def waits_for_a_worker(_task: object) -> Any:
            handed.set()
            await asyncio.Event().wait()
            yield

        monkeypatch.setattr(bench.engine, "run", waits_for_a_worker)
        job = new_job()
        await bench.dispatcher.submit(job)
        await handed.wait()
        await bench.dispatcher.stop()
        assert (await bench.store.get(job.id)).status is JobStatus.QUEUED


async def test_progress_does_not_fall_when_a_job_runs_again(tmp_path: Path) -> None:
    """Not in the queue, not in the second run, and not after a stop."""
    async with serving(tmp_path) as server:
        job_id = (await server.post()).json()["id"]

        async def seen(status: str, least: int = 0) -> int:
            async with asyncio.timeout(5):
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
    async with asyncio.timeout(5):
        while live.job.attempts == 0:
            await asyncio.sleep(0.005)
    monkeypatch.setattr(bench.engine, "wait_idle", asyncio.Event().wait)
    bench.engine.fail(job.id, "worker_crashed", victim=True)
    async with asyncio.timeout(5):
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


async def test_a_drain_ends_with_the_worker(bench: Bench) -> None:
    """A victim is in the queue again, and nothing runs any more: there is nothing to wait for."""
    job = new_job()
    await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)
    draining = asyncio.create_task(bench.dispatcher.drain(60))
    await asyncio.sleep(0.01)
    bench.engine.fail(job.id, "worker_crashed", victim=True)
    await asyncio.wait_for(draining, 5)
    assert (await bench.store.get(job.id)).status is JobStatus.QUEUED


async def test_a_restart_on_a_disk_without_room_for_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database has room: the job that ran is queued there, and runs as soon as its folder can be made."""
    job = new_job()
    async with killed(tmp_path, job):
        pass
    bench, idle = Bench(tmp_path, ScriptedEngine()), asyncio.Event()
    monkeypatch.setattr(bench.engine, "wait_idle", idle.wait)
    create, full = bench.artifacts.create, True

    def refuse(job_id: str) -> Path:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return create(job_id)

    monkeypatch.setattr(bench.artifacts, "create", refuse)
    await bench.database.open()
    try:
        await bench.dispatcher.start()
        assert (await bench.store.get(job.id)).status is JobStatus.QUEUED
        full = False
        idle.set()
        await bench.status(job, JobStatus.IN_PROGRESS)
        bench.engine.finish(job.id)
        await bench.status(job, JobStatus.COMPLETED)
    finally:
        await bench.dispatcher.stop()
        await bench.database.close()


async def test_a_database_that_goes_away_as_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What became of a job that nobody wants any more is written down as soon as that works."""
    job = replace(new_job(), waits=True)
    async with killed(tmp_path, job):
        pass
    bench = Bench(tmp_path, ScriptedEngine())
    move, refusals = bench.store.move, [StoreUnavailable("gone", 1)]

    async def refuse_once(*arguments: Any, **changes: Any) -> Job:
        if refusals:
            raise refusals.pop()
        return await move(*arguments, **changes)

    monkeypatch.setattr(bench.store, "move", refuse_once)
    await bench.database.open()
    try:
        await bench.dispatcher.start()
        assert error_code(await bench.status(job, JobStatus.FAILED)) == "server_restarted"
    finally:
        await bench.dispatcher.stop()
        await bench.database.close()


async def test_a_stop_waits_once_for_a_database_that_does_not_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs there are to be written down."""
    for _ in range(3):
        await bench.dispatcher.submit(replace(new_job(), waits=True))
    asked, all_asked = [], asyncio.Event()

    async def refuse_all_at_once(job_id: str, *_: object, **__: object) -> Job:
        asked.append(job_id)
        if len(set(asked)) == 3:
            all_asked.set()
        await all_asked.wait()
        raise StoreUnavailable("gone", 1)

    monkeypatch.setattr(bench.store, "move", refuse_all_at_once)
    await asyncio.wait_for(bench.dispatcher.stop(), 5)
    assert bench.dispatcher.roster.lives() == {}


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
        answer = await asyncio.wait_for(waiting, 5)
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


class LostWorker:
    """A worker of `LocalEngine` that takes tasks and begins none."""

    idle = True

    def __init__(self) -> None:
        self.given: list[str] = []
        self.events: asyncio.Queue[Failed] = asyncio.Queue()

    def begin(self, task: EngineTask) -> asyncio.Queue[Failed]:
        self.given.append(task.job_id)
        return self.events

    def cancel(self, job_id: str) -> None: ...

    def forget(self, job_id: str) -> None: ...


async def test_a_cancel_as_the_worker_dies(tmp_path: Path) -> None:
    """Between the end of the worker that held the task and the next one's turn: it is given to none."""
    engine, worker = LocalEngine(EngineSettings(), ()), LostWorker()
    engine._workers = [worker]  # type: ignore[list-item]
    running = asyncio.create_task(events_of(engine, task_in(tmp_path)))
    while not worker.given:
        await asyncio.sleep(0)
    worker.events.put_nowait(Failed("job", "worker_crashed", "it ended", victim=True))
    await engine.cancel("job")
    (event,) = await asyncio.wait_for(running, 5)
    assert isinstance(event, Failed)
    assert event.code == "cancelled"
    assert worker.given == ["job"]
