"""What becomes of jobs when the server or a worker ends before them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from server.jobs import JobStatus
from tests.server.bench import Bench, dispatching, error_code, killed
from tests.server.scripted import ScriptedEngine, new_job

pytestmark = pytest.mark.usefixtures("database_url")


async def test_a_restart_takes_up_what_was_left(tmp_path: Path) -> None:
    """Running and queued jobs run again, in order; one whose client waited fails; nothing is stuck."""
    running, queued = new_job(created_us=1), new_job(created_us=2)
    waited = replace(new_job(created_us=3), waits=True)
    async with killed(tmp_path, running, queued, waited) as first:
        leftover = first.artifacts.create(running.id) / ".video.mp4.part"
        leftover.write_bytes(b"half")
    async with dispatching(tmp_path) as second:
        assert not leftover.exists()
        assert error_code(await second.status(waited, JobStatus.FAILED)) == "server_restarted"
        for job in (running, queued):
            await second.status(job, JobStatus.IN_PROGRESS)
            second.engine.finish(job.id)
            await second.status(job, JobStatus.COMPLETED)
        assert second.engine.begun == [running.id, queued.id]


async def test_a_job_that_was_killed_twice_is_not_tried_again(tmp_path: Path) -> None:
    """It may be what kills the server; the others go on."""
    suspect, other = new_job(created_us=1), new_job(created_us=2)
    async with killed(tmp_path, suspect, other):
        pass
    async with killed(tmp_path) as second:
        assert second.engine.begun[0] == suspect.id
    async with dispatching(tmp_path) as third:
        assert error_code(await third.status(suspect, JobStatus.FAILED)) == "server_restarted"
        await third.begun(1)
        assert third.engine.begun == [other.id]


async def test_a_running_job_can_be_failed_instead(tmp_path: Path) -> None:
    """By configuration, after a kill as after a stop; the queued one runs either way."""
    running, queued = new_job(created_us=1), new_job(created_us=2)
    async with killed(tmp_path, running, queued):
        pass
    async with dispatching(tmp_path, on_restart="fail") as second:
        assert error_code(await second.status(running, JobStatus.FAILED)) == "server_restarted"
        await second.status(queued, JobStatus.IN_PROGRESS)
        await second.dispatcher.stop()
        assert error_code(await second.store.get(queued.id)) == "server_restarted"


async def test_a_clean_stop_does_not_count(tmp_path: Path) -> None:
    """However often the server is stopped while the job runs, it is begun again."""
    job = new_job()
    for run in range(4):
        async with dispatching(tmp_path) as bench:
            if run == 0:
                await bench.dispatcher.submit(job)
            await bench.status(job, JobStatus.IN_PROGRESS)
    async with dispatching(tmp_path) as bench:
        await bench.status(job, JobStatus.IN_PROGRESS)
        bench.engine.finish(job.id)
        assert (await bench.status(job, JobStatus.COMPLETED)).attempts == 1


async def test_a_stop_puts_the_running_job_back(bench: Bench) -> None:
    """After a clean stop the job is queued, for the next server; whoever waits is let go."""
    job, waited = new_job(), replace(new_job(), waits=True)
    lives = [await bench.dispatcher.submit(made) for made in (job, waited)]
    await bench.status(job, JobStatus.IN_PROGRESS)
    await bench.dispatcher.stop()
    assert (await bench.store.get(job.id)).status is JobStatus.QUEUED
    assert error_code(await bench.store.get(waited.id)) == "server_restarted"
    assert all(live.ended.is_set() for live in lives)


async def test_a_stop_before_the_start(tmp_path: Path) -> None:
    """A signal while the server starts: nothing is begun."""
    job = new_job()
    async with killed(tmp_path, job):
        pass
    bench = Bench(tmp_path, ScriptedEngine())
    await bench.database.open()
    await bench.dispatcher.stop()
    await bench.dispatcher.start()
    await asyncio.sleep(0.05)
    await bench.dispatcher.stop()
    assert bench.engine.begun == []
    assert (await bench.store.get(job.id)).status is JobStatus.QUEUED
    await bench.database.close()


async def test_a_victim_runs_again_and_the_culprit_does_not(bench: Bench) -> None:
    """Another job's crash costs a job nothing but time: it is the next to begin, with an empty folder."""
    victim, culprit, waiting = new_job(), new_job(), new_job()
    for job in (victim, culprit, waiting):
        await bench.dispatcher.submit(job)
    await bench.status(victim, JobStatus.IN_PROGRESS)
    bench.engine.free(victim.id)  # its tail is still encoded
    await bench.status(culprit, JobStatus.IN_PROGRESS)
    part = bench.artifacts.file(victim.id, ".video.mp4.part")
    part.write_bytes(b"half")
    bench.engine.fail(victim.id, "worker_crashed", victim=True)
    await bench.status(victim, JobStatus.QUEUED)
    bench.engine.fail(culprit.id, "worker_crashed")
    assert error_code(await bench.status(culprit, JobStatus.FAILED)) == "worker_crashed"
    await bench.begun(3)
    assert bench.engine.begun[2] == victim.id
    assert not part.exists()
    bench.engine.finish(victim.id)
    assert (await bench.status(victim, JobStatus.COMPLETED)).attempts == 2
    await bench.begun(4)
    assert bench.engine.begun[3] == waiting.id


async def test_a_victim_runs_again_once(bench: Bench) -> None:
    """What is there at two crashes is told so."""
    job = new_job()
    await bench.dispatcher.submit(job)
    for run in (1, 2):
        await bench.begun(run)
        await bench.status(job, JobStatus.IN_PROGRESS)
        bench.engine.fail(job.id, "worker_crashed", victim=True)
    assert error_code(await bench.status(job, JobStatus.FAILED)) == "worker_crashed"
    assert bench.engine.begun == [job.id] * 2


async def test_a_victim_that_was_cancelled_stays_cancelled(bench: Bench) -> None:
    """The crash came before the worker could stop it."""
    job = new_job()
    await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)
    bench.engine.deaf = True
    cancelling = asyncio.create_task(bench.dispatcher.cancel(job.id))
    await asyncio.sleep(0.02)
    bench.engine.fail(job.id, "worker_crashed", victim=True)
    assert error_code(await cancelling) == "cancelled"
    assert bench.engine.begun == [job.id]


async def test_a_victim_that_was_seen_fails(bench: Bench) -> None:
    """A client has the first pieces of a stream: another run would not fit them."""
    job = new_job()
    job = replace(job, waits=True, resolved=replace(job.resolved, stream=True))
    live = await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)
    bench.engine.fragment(job.id, b"ftyp")
    assert await live.fragments.get() == b"ftyp"
    bench.engine.fail(job.id, "worker_crashed", victim=True)
    assert error_code(await bench.status(job, JobStatus.FAILED)) == "worker_crashed"


@pytest.mark.parametrize("moment", range(12))
async def test_whatever_the_moment_of_the_stop(tmp_path: Path, moment: int) -> None:
    """Stopped at one turn of the event loop after another: each job has ended or is queued, and runs."""
    jobs = [new_job(created_us=number) for number in range(3)]
    async with dispatching(tmp_path) as bench:
        await bench.dispatcher.submit(jobs[0])
        await bench.status(jobs[0], JobStatus.IN_PROGRESS)
        bench.engine.finish(jobs[0].id)
        creating = [asyncio.create_task(bench.dispatcher.submit(job)) for job in jobs[1:]]
        for _ in range(2**moment // 2):
            await asyncio.sleep(0)
        await bench.dispatcher.stop()
        await asyncio.gather(*creating, return_exceptions=True)
    async with dispatching(tmp_path) as after:
        for job in await after.store.unfinished():
            await after.status(job, JobStatus.IN_PROGRESS)
            after.engine.finish(job.id)
            await after.status(job, JobStatus.COMPLETED)
        ids = await after.store.ids()
        states = [(await after.store.get(job_id)).status for job_id in ids]
        assert jobs[0].id in ids
        assert set(states) == {JobStatus.COMPLETED}
