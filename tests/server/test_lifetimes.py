"""What the store says of how long jobs are kept, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from server.jobs import Job, JobStatus
from server.store import Lifetime, Store
from tests.server.scripted import new_job

NOW = 1_800_000_000_000_000


async def added(store: Store, status: JobStatus, ended_us: int | None, expires_us: int | None = None) -> Job:
    """A job in this state, created an hour before it ended."""
    created = (ended_us or NOW) - 3600 * 1_000_000
    job = replace(new_job(), status=status, created_us=created, completed_us=ended_us, expires_us=expires_us)
    await store.add(job)
    return job


async def test_lifetimes_of_many(store: Store) -> None:
    """More than one statement takes; unknown ids are left out."""
    jobs = [await added(store, JobStatus.COMPLETED, NOW, NOW + number) for number in range(3)]
    ids = [new_job().id for _ in range(1200)]
    found = await store.lifetimes([*ids[:600], *(job.id for job in jobs), *ids[600:]])
    assert sorted(found, key=lambda life: life.expires_us or 0) == [
        Lifetime(job.id, JobStatus.COMPLETED, NOW, job.expires_us) for job in jobs
    ]
    assert await store.lifetimes([]) == []


@pytest.mark.parametrize(
    ("status", "expires_us", "kept"),
    [
        (JobStatus.QUEUED, None, True),
        (JobStatus.IN_PROGRESS, NOW, True),
        (JobStatus.COMPLETED, None, True),
        (JobStatus.COMPLETED, NOW + 1, True),
        (JobStatus.COMPLETED, NOW, False),
        (JobStatus.FAILED, None, False),
        (JobStatus.FAILED, NOW + 1, False),
    ],
)
def test_whose_files_are_kept(status: JobStatus, expires_us: int | None, kept: bool) -> None:
    """Of what runs always, of what is completed until it expires, of what failed never."""
    assert Lifetime("video", status, NOW, expires_us).keeps_files(NOW) is kept


async def test_an_expiry_is_only_ever_brought_forward(store: Store) -> None:
    """And of an unknown job it means nothing."""
    never = await added(store, JobStatus.COMPLETED, NOW)
    later = await added(store, JobStatus.COMPLETED, NOW, NOW + 5)
    before = await added(store, JobStatus.COMPLETED, NOW, NOW - 5)
    for job in (never, later, before, new_job()):
        await store.expire(job.id, NOW)
    expiries = [(await store.get(job.id)).expires_us for job in (never, later, before)]
    assert expiries == [NOW, NOW, NOW - 5]


async def test_only_what_has_ended_and_has_no_files_is_forgotten(store: Store) -> None:
    """The longest ended first, and no more than asked for."""
    kept = [
        await added(store, JobStatus.QUEUED, None),
        await added(store, JobStatus.IN_PROGRESS, None),
        await added(store, JobStatus.COMPLETED, NOW - 100),
        await added(store, JobStatus.COMPLETED, NOW - 100, NOW + 1),
        await added(store, JobStatus.FAILED, NOW - 9),
    ]
    second = await added(store, JobStatus.COMPLETED, NOW - 20, NOW)
    first = await added(store, JobStatus.FAILED, NOW - 30)
    third = await added(store, JobStatus.FAILED, NOW - 10)
    assert await store.first_end_us(NOW) == NOW - 30
    assert set(await store.forget(NOW - 10, NOW, 2)) == {first.id, second.id}
    assert await store.first_end_us(NOW) == NOW - 10
    assert await store.forget(NOW - 10, NOW, 2) == [third.id]
    assert await store.forget(NOW - 10, NOW, 2) == []
    assert await store.ids() == {job.id for job in kept}


async def test_nothing_to_forget(store: Store) -> None:
    """An empty store, and one in which nothing has ended."""
    assert await store.first_end_us(NOW) is None
    await added(store, JobStatus.QUEUED, None)
    assert (await store.first_end_us(NOW), await store.forget(NOW, NOW, 9)) == (None, [])
