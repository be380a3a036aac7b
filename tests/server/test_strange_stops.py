"""Stops and starts that meet cancels, full disks and databases that are away."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.errors import NotReady, StoreUnavailable
from server.jobs import Job, JobStatus
from tests.server.bench import WAIT_S, Bench, dispatching, error_code, killed
from tests.server.scripted import ScriptedEngine, new_job

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


async def test_a_drain_ends_with_the_worker(bench: Bench) -> None:
    """A victim is in the queue again, and nothing runs any more: there is nothing to wait for."""
    job = new_job()
    await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)
    draining = asyncio.create_task(bench.dispatcher.drain(60))
    await asyncio.sleep(0.01)
    bench.engine.fail(job.id, "worker_crashed", victim=True)
    await asyncio.wait_for(draining, WAIT_S)
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
    await asyncio.wait_for(bench.dispatcher.stop(), WAIT_S)
    assert bench.dispatcher.roster.lives() == {}
