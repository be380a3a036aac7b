from __future__ import annotations

import asyncio
import itertools
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from server.database import Database
from server.errors import IllegalMove, NotFound
from server.jobs import TRANSITIONS, JobError, JobStatus, StoredFile
from server.store import Store
from tests.server.scripted import new_job


async def test_a_job_comes_back_as_it_was_put_in(store: Store) -> None:
    """Every field, zeros and exact rates included."""
    job = new_job(
        image=Path("/uploads/picture.png"), guidance_scale_2=0.0, boundary_ratio=None, seed=2**63 - 1
    )
    await store.add(job)
    back = await store.get(job.id)
    assert back == job
    assert back.resolved.fps == Fraction(2997, 125)
    assert back.resolved.params.guidance_scale_2 == 0.0
    assert back.resolved.params.boundary_ratio is None


async def test_jobs_outlive_the_store(store: Store, database_url: str) -> None:
    """A second store on the same database finds what the first one wrote."""
    job = new_job()
    await store.add(job)
    database = Database(database_url)
    await database.open()
    assert await Store(database).get(job.id) == job
    await database.close()


@pytest.mark.parametrize(("source", "target"), list(itertools.product(JobStatus, JobStatus)))
async def test_every_move_is_in_the_table_or_refused(
    store: Store, source: JobStatus, target: JobStatus
) -> None:
    """Legal moves happen; illegal ones say where the job is, and change nothing."""
    job = new_job()
    await store.add(job)
    if source is not JobStatus.QUEUED:
        await store.move(job.id, JobStatus.IN_PROGRESS)
    if source.final:
        await store.move(job.id, source)
    if target in TRANSITIONS[source]:
        assert (await store.move(job.id, target)).status is target
    else:
        with pytest.raises(IllegalMove, match=f"is {source}"):
            await store.move(job.id, target)
        assert (await store.get(job.id)).status is source


async def test_a_move_carries_other_fields(store: Store) -> None:
    """Files, timings and errors are written with the status, in one transaction."""
    done, failed = new_job(), new_job()
    for job in (done, failed):
        await store.add(job)
        await store.move(job.id, JobStatus.IN_PROGRESS, started_us=5)
    files = (StoredFile("video.mp4", 10), StoredFile("video-1.mp4", 20))
    await store.move(done.id, JobStatus.COMPLETED, files=files, timings={"denoise": 1.5}, completed_us=9)
    await store.move(failed.id, JobStatus.FAILED, error=JobError("out_of_memory", "too large"))
    back = await store.get(done.id)
    assert (back.files, dict(back.timings), back.started_us, back.completed_us) == (
        files,
        {"denoise": 1.5},
        5,
        9,
    )
    assert back.error is None
    assert (await store.get(failed.id)).error == JobError("out_of_memory", "too large")


async def test_of_many_movers_one_wins(store: Store) -> None:
    """Twenty at once from queued to in_progress: one move, nineteen refusals."""
    job = new_job()
    await store.add(job)
    moves = [store.move(job.id, JobStatus.IN_PROGRESS) for _ in range(20)]
    results = await asyncio.gather(*moves, return_exceptions=True)
    assert sum(isinstance(result, IllegalMove) for result in results) == 19


async def test_what_is_unknown_is_not_found(store: Store) -> None:
    """Reading, moving, deleting and listing after a job that is not there."""
    calls = (
        store.get("video_x"),
        store.move("video_x", JobStatus.FAILED),
        store.delete("video_x"),
        store.page("", after="video_x"),
    )
    for call in calls:
        with pytest.raises(NotFound, match="video_x"):
            await call


@pytest.mark.parametrize("job_id", ["video_\0", "video_\ud800", "video_é", "\n", ""], ids=ascii)
async def test_ids_that_no_job_has(store: Store, job_id: str) -> None:
    """What cannot be sent to every database is not found either."""
    await store.add(new_job())
    for call in (store.get(job_id), store.delete(job_id), store.move(job_id, JobStatus.FAILED)):
        with pytest.raises(NotFound):
            await call


async def test_pages_follow_the_time_of_creation(store: Store) -> None:
    """Both orders, jobs of one microsecond included, without a gap or a repeat."""
    jobs = [new_job(created_us=time) for time in (1, 2, 2, 2, 3)]
    for job in jobs:
        await store.add(job)
    expected = [job.id for job in sorted(jobs, key=lambda job: (job.created_us, job.id))]
    for order, wanted in (("asc", expected), ("desc", expected[::-1])):
        seen: list[str] = []
        more = True
        while more:
            after = seen[-1] if seen else None
            page, more = await store.page("", after=after, limit=2, order=order)  # type: ignore[arg-type]
            seen += [job.id for job in page]
        assert seen == wanted


async def test_a_page_is_read_from_an_index(tmp_path: Path) -> None:
    """However many jobs there are, a list sorts none of them: SQLite's own plan says so."""
    database = Database(f"sqlite:///{tmp_path / 'jobs.sqlite3'}")
    await database.open()
    store = Store(database)
    asked: list[tuple[str, Any]] = []
    jobs = [new_job(created_us=time) for time in range(3)]
    for job in jobs:
        await store.add(job)

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(database._engine.sync_engine, "before_cursor_execute", note)
    for after in (None, jobs[1].id):
        await store.page("", after=after, order="asc")
        await store.page("", after=after, order="desc")
    await database.close()
    with closing(sqlite3.connect(tmp_path / "jobs.sqlite3")) as connection:
        plans = [
            str(connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall())
            for statement, parameters in asked
            if "ORDER BY" in statement
        ]
    assert len(plans) == 4
    assert all("ix_jobs_owner" in plan and "TEMP B-TREE" not in plan for plan in plans), plans


async def test_unfinished_jobs_in_order(store: Store) -> None:
    """Queued and running ones, oldest first."""
    late, early, done = new_job(created_us=9), new_job(created_us=2), new_job(created_us=1)
    for job in (late, early, done):
        await store.add(job)
    await store.move(early.id, JobStatus.IN_PROGRESS)
    await store.move(done.id, JobStatus.FAILED)
    assert [job.id for job in await store.unfinished()] == [early.id, late.id]


async def test_a_cancelled_writer_leaves_the_database_free(store: Store) -> None:
    """Wherever in its transaction it is told to end: it is whole or never began, and the next one writes."""
    for step in range(60):
        job = new_job()
        await store.add(job)
        moving = asyncio.create_task(store.move(job.id, JobStatus.IN_PROGRESS))
        await asyncio.sleep(step * 0.0001)
        moving.cancel()
        await asyncio.gather(moving, return_exceptions=True)
        async with asyncio.timeout(60):
            await store.move(job.id, JobStatus.FAILED)


async def test_an_error_of_the_database_does_not_show_the_prompt(store: Store) -> None:
    """It may be logged with its trace."""
    job = new_job(prompt="a secret")
    await store.add(job)
    with pytest.raises(IntegrityError) as caught:
        await store.add(job)
    assert "secret" not in str(caught.value)
