from __future__ import annotations

import asyncio

import pytest

from server.engine.base import JobErrorCode
from server.errors import IllegalMove, NotFound, QueueFull
from server.jobs import JobStatus
from tests.server.bench import Bench
from tests.server.scripted import new_job

pytestmark = pytest.mark.usefixtures("database_url")


async def test_a_job_goes_from_the_queue_to_its_file(bench: Bench) -> None:
    """Queued, in progress, completed: with times, timings and the file's name."""
    job = new_job()
    live = await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)
    bench.engine.finish(job.id)
    await live.ended.wait()
    done = await bench.store.get(job.id)
    assert done.status is JobStatus.COMPLETED
    assert done.progress == 100
    assert [file.name for file in done.files] == ["video.mp4"]
    assert set(done.timings) == {"generation", "denoise", "decode", "encode", "queue", "total"}
    assert bench.artifacts.file(job.id, "video.mp4").read_bytes() == b"video"
    assert bench.dispatcher.roster.live(job.id) is None


async def test_one_slot_runs_one_job_at_a_time_in_order(bench: Bench) -> None:
    """The second begins when the first has left the device, while its tail is still encoded."""
    jobs = [new_job(), new_job(), new_job()]
    for job in jobs:
        await bench.dispatcher.submit(job)
    await bench.status(jobs[0], JobStatus.IN_PROGRESS)
    assert [bench.dispatcher.roster.queue.position(job.id) for job in jobs] == [None, 0, 1]
    bench.engine.free(jobs[0].id)
    await bench.begun(2)
    assert bench.engine.begun == [jobs[0].id, jobs[1].id]
    assert (await bench.store.get(jobs[0].id)).status is JobStatus.IN_PROGRESS
    bench.engine.finish(jobs[0].id)
    await bench.status(jobs[0], JobStatus.COMPLETED)
    assert bench.engine.begun == [jobs[0].id, jobs[1].id]


async def test_one_more_than_may_wait_is_refused(bench: Bench) -> None:
    """One runs, three wait, the fifth is told to come again; it is written nowhere."""
    first = new_job()
    await bench.dispatcher.submit(first)
    await bench.status(first, JobStatus.IN_PROGRESS)
    for _ in range(3):
        await bench.dispatcher.submit(new_job())
    refused = new_job()
    with pytest.raises(QueueFull, match="3 jobs wait"):
        await bench.dispatcher.submit(refused)
    with pytest.raises(NotFound):
        await bench.store.get(refused.id)


async def test_many_at_once_do_not_pass_the_bound(bench: Bench) -> None:
    """Of 50 concurrent submissions, those beyond the queue are refused."""
    first = new_job()
    await bench.dispatcher.submit(first)
    await bench.status(first, JobStatus.IN_PROGRESS)
    submissions = [bench.dispatcher.submit(new_job()) for _ in range(50)]
    results = await asyncio.gather(*submissions, return_exceptions=True)
    assert sum(isinstance(result, QueueFull) for result in results) == 47
    assert len(bench.dispatcher.roster.queue) == 3


async def test_a_job_that_cannot_be_written_down_takes_no_place(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk under the database refuses the job; the next one runs as if it had never been."""

    async def full(*_: object) -> None:
        await asyncio.sleep(0.05)  # long enough for the queue to hand it out
        raise OSError(28, "No space left on device")

    refused, following = new_job(), new_job()
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "add", full)
        with pytest.raises(OSError, match="No space"):
            await bench.dispatcher.submit(refused)
    await bench.dispatcher.submit(following)
    await bench.status(following, JobStatus.IN_PROGRESS)
    assert bench.engine.begun == [following.id]


@pytest.mark.parametrize("code", ["out_of_memory", "worker_crashed", "encoding_failed"])
async def test_a_failed_job_says_why_and_leaves_no_file(bench: Bench, code: JobErrorCode) -> None:
    """The error is kept, the folders are gone, and the next job runs."""
    job, following = new_job(), new_job()
    bench.uploads.create(job.id)
    await bench.dispatcher.submit(job)
    await bench.dispatcher.submit(following)
    await bench.status(job, JobStatus.IN_PROGRESS)
    bench.engine.progress(job.id, 2, 4)
    bench.engine.fail(job.id, code, "the reason")
    failed = await bench.status(job, JobStatus.FAILED)
    assert failed.error is not None
    assert (failed.error.code, failed.error.message) == (code, "the reason")
    assert 0 < failed.progress < 100
    await bench.status(following, JobStatus.IN_PROGRESS)
    assert not bench.artifacts.file(job.id, "").exists()
    assert not bench.uploads.file(job.id, "").exists()


async def test_cancel_of_a_waiting_job_never_reaches_the_engine(bench: Bench) -> None:
    """It is failed at once, and skipped."""
    running, waiting, following = new_job(), new_job(), new_job()
    await bench.dispatcher.submit(running)
    await bench.status(running, JobStatus.IN_PROGRESS)
    for job in (waiting, following):
        await bench.dispatcher.submit(job)
    cancelled = await bench.dispatcher.cancel(waiting.id)
    assert cancelled.error is not None
    assert (cancelled.status, cancelled.error.code) == (JobStatus.FAILED, "cancelled")
    bench.engine.finish(running.id)
    await bench.status(following, JobStatus.IN_PROGRESS)
    assert bench.engine.begun == [running.id, following.id]


async def test_cancel_of_a_running_job_waits_for_its_end(bench: Bench) -> None:
    """The engine is asked, and the answer is the failed job."""
    job = new_job()
    await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)
    cancelled = await bench.dispatcher.cancel(job.id)
    assert bench.engine.cancelled == [job.id]
    assert cancelled.error is not None
    assert cancelled.error.code == "cancelled"


async def test_cancel_of_an_ended_job_is_refused(bench: Bench) -> None:
    """A completed video cannot be cancelled, and stays."""
    job = new_job()
    await bench.dispatcher.submit(job)
    await bench.status(job, JobStatus.IN_PROGRESS)
    bench.engine.finish(job.id)
    await bench.status(job, JobStatus.COMPLETED)
    with pytest.raises(IllegalMove, match="completed"):
        await bench.dispatcher.cancel(job.id)
    assert bench.artifacts.file(job.id, "video.mp4").exists()


@pytest.mark.parametrize("state", list(JobStatus))
async def test_a_deleted_job_is_gone_with_its_files(bench: Bench, state: JobStatus) -> None:
    """Whatever its state: no record, no folder, and a second delete finds nothing."""
    blocker, job = new_job(), new_job()
    if state is JobStatus.QUEUED:
        await bench.dispatcher.submit(blocker)
    await bench.dispatcher.submit(job)
    if state is not JobStatus.QUEUED:
        await bench.status(job, JobStatus.IN_PROGRESS)
    if state is JobStatus.COMPLETED:
        bench.engine.finish(job.id)
    if state is JobStatus.FAILED:
        bench.engine.fail(job.id, "internal_error")
    await bench.status(job, state)
    await bench.dispatcher.delete(job.id)
    with pytest.raises(NotFound):
        await bench.store.get(job.id)
    assert not bench.artifacts.file(job.id, "").exists()
    with pytest.raises(NotFound):
        await bench.dispatcher.delete(job.id)


async def test_a_delete_as_it_finishes_brings_nothing_back(bench: Bench) -> None:
    """Finished and deleted at once, twenty times: never a record or a file afterwards."""
    for _ in range(20):
        job = new_job()
        await bench.dispatcher.submit(job)
        await bench.status(job, JobStatus.IN_PROGRESS)
        bench.engine.finish(job.id)
        await bench.dispatcher.delete(job.id)
        with pytest.raises(NotFound):
            await bench.store.get(job.id)
        assert not bench.artifacts.file(job.id, "").exists()


async def test_two_deletes_at_once(bench: Bench) -> None:
    """One deletes, the other finds nothing; neither hangs."""
    job = new_job()
    await bench.dispatcher.submit(job)
    results = await asyncio.gather(
        bench.dispatcher.delete(job.id), bench.dispatcher.delete(job.id), return_exceptions=True
    )
    assert sorted(type(result).__name__ for result in results) == ["NoneType", "NotFound"]
