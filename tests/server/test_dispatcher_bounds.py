"""How many jobs there may be, whose turn it is, and how long one may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from server.errors import KeyBusy, NotReady, QueueFull
from server.jobs import Job, JobStatus
from server.live import LiveJob
from tests.server.bench import WAIT_S, Bench, dispatching
from tests.server.scripted import new_job


def owned(owner: str) -> Job:
    return replace(new_job(), owner=owner)


async def in_order(bench: Bench, count: int) -> list[str]:
    """The owners of the first `count` jobs, each finished when it has begun."""
    owners = []
    for number in range(count):
        await bench.begun(number + 1)
        job = await bench.store.get(bench.engine.begun[number])
        owners.append(job.owner)
        bench.engine.finish(job.id)
    return owners


async def test_owners_take_turns(tmp_path: Path) -> None:
    """Five jobs of one key do not keep another key waiting for more than one of them."""
    async with dispatching(tmp_path) as bench:
        await bench.dispatcher.submit(owned("a"))
        await bench.begun(1)
        for owner in ("a", "a", "a", "a", "b", "b"):
            await bench.dispatcher.submit(owned(owner))
        assert await in_order(bench, 7) == ["a", "a", "b", "a", "b", "a", "a"]


async def test_a_key_has_its_own_limit(tmp_path: Path) -> None:
    """Running ones count; another key has room, and so has this one once a job of it has ended."""
    async with dispatching(tmp_path, max_jobs_per_key=2) as bench:
        first = owned("a")
        await bench.dispatcher.submit(first)
        await bench.status(first, JobStatus.IN_PROGRESS)
        await bench.dispatcher.submit(owned("a"))
        with pytest.raises(KeyBusy, match="2 jobs of this API key are not finished, and at most 2 may be"):
            await bench.dispatcher.submit(owned("a"))
        await bench.dispatcher.submit(owned("b"))
        bench.engine.finish(first.id)
        await bench.status(first, JobStatus.COMPLETED)
        await bench.dispatcher.submit(owned("a"))


async def test_without_keys_there_is_no_limit_of_a_key(tmp_path: Path) -> None:
    async with dispatching(tmp_path, max_jobs_per_key=1) as bench:
        for _ in range(3):
            await bench.dispatcher.submit(new_job())


async def test_the_wait_is_told_by_the_measured_pace(tmp_path: Path) -> None:
    """Two devices with 40 s a job: a place is free within 20 s."""
    async with dispatching(tmp_path, slots=2, max_jobs=1) as bench:
        bench.dispatcher.pace.note(40)
        for begun in (1, 2, 2):
            await bench.dispatcher.submit(new_job())
            await bench.begun(begun)
        with pytest.raises(QueueFull) as refused:
            await bench.dispatcher.submit(new_job())
        assert refused.value.retry_after_s == 20


async def test_a_job_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails with `timeout`, and the next one begins; the time in the queue does not count."""
    slow, following = new_job(), new_job()
    given: list[tuple[str, JobStatus, float]] = []
    expire_after = LiveJob.expire_after

    def noted(live: LiveJob, seconds: float, act: Callable[[], None]) -> None:
        given.append((live.job.id, live.job.status, seconds))
        # That of the other one is not over here, however long this machine takes.
        expire_after(live, seconds if live.job.id == slow.id else 3600, act)

    monkeypatch.setattr(LiveJob, "expire_after", noted)
    async with dispatching(tmp_path, job_timeout_s=0.2) as bench:
        await bench.dispatcher.submit(slow)
        await bench.dispatcher.submit(following)
        failed = await bench.status(slow, JobStatus.FAILED)
        assert failed.error is not None
        assert (failed.error.code, failed.error.message) == (
            "timeout",
            "not finished within 0.2 s of its start",
        )
        await bench.status(following, JobStatus.IN_PROGRESS)
        bench.engine.finish(following.id)
        await bench.status(following, JobStatus.COMPLETED)
        assert bench.engine.cancelled == [slow.id]
    assert given == [(job.id, JobStatus.IN_PROGRESS, 0.2) for job in (slow, following)]


async def test_draining_lets_the_running_job_finish(tmp_path: Path) -> None:
    """Nothing new is taken or begun; the drain ends with the job, and the next server begins the other."""
    async with dispatching(tmp_path) as bench:
        running, waiting = new_job(created_us=1), new_job(created_us=2)
        await bench.dispatcher.submit(running)
        await bench.status(running, JobStatus.IN_PROGRESS)
        await bench.dispatcher.submit(waiting)
        draining = asyncio.create_task(bench.dispatcher.drain(60))
        await asyncio.sleep(0.05)
        with pytest.raises(NotReady, match="stopping"):
            await bench.dispatcher.submit(new_job())
        bench.engine.finish(running.id)
        await asyncio.wait_for(draining, WAIT_S)
        assert (await bench.store.get(running.id)).status is JobStatus.COMPLETED
    async with dispatching(tmp_path) as after:
        await after.begun(1)
        assert (bench.engine.begun, after.engine.begun) == ([running.id], [waiting.id])


async def test_a_drain_ends_after_its_time(tmp_path: Path) -> None:
    """What runs longer is put back by the stop."""
    async with dispatching(tmp_path) as bench:
        job = new_job()
        await bench.dispatcher.submit(job)
        await bench.status(job, JobStatus.IN_PROGRESS)
        await asyncio.wait_for(bench.dispatcher.drain(0.05), WAIT_S)
        await bench.dispatcher.stop()
        assert (await bench.store.get(job.id)).status is JobStatus.QUEUED
