"""What is kept for how long, by a clock that the test turns."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from server.jobs import JobStatus
from server.retention import LOOK_AGAIN_S, TROUBLE_PAUSE_S
from server.schemas import VideoGenerationRequest
from tests.server.house import NONE, START, S, house
from tests.server.scripted import new_job

pytestmark = pytest.mark.usefixtures("database_url")


@pytest.mark.parametrize(
    ("files_s", "completed_us", "expires_us"),
    [(60, 5 * S, 65 * S), (60, 5 * S + 1, 66 * S), (0.25, 5 * S, 6 * S), (None, 5 * S, None)],
)
def test_files_go_at_a_whole_second(files_s: float | None, completed_us: int, expires_us: int | None) -> None:
    """Never before their time, and exactly when `expires_at` says so."""
    assert replace(NONE, files_s=files_s).expires_us(completed_us) == expires_us


async def test_files_go_by_age(tmp_path: Path) -> None:
    """At their time and not before; the record stays, and the picture for a remix."""
    async with house(tmp_path, files_s=100) as it:
        first = await it.complete(upload=3)
        it.now += 40 * S
        second = await it.complete()
        assert await it.keeper.round() == 60
        it.now = START + 100 * S - 1
        assert await it.keeper.round() == pytest.approx(1e-6)
        assert it.has(first) == (True, True)
        it.now += 1
        assert await it.keeper.round() == 40
        assert (it.has(first), it.has(second)) == ((False, True), (True, False))
        assert await it.store.get(first.id) == first
        it.now += 40 * S
        assert await it.keeper.round() == LOOK_AGAIN_S
        assert it.has(second) == (False, False)
        assert it.removed("age") == 2


async def test_what_runs_is_never_removed(tmp_path: Path) -> None:
    """Neither by age nor by size, however long it takes."""
    async with house(tmp_path, files_s=1, files_bytes=1, records_s=1) as it:
        running = await it.begin(upload=3)
        it.artifacts.file(running.id, "video.mp4").write_bytes(b"so far")
        await it.keeper.sweep()
        it.now += 10**6 * S
        await it.keeper.round()
        assert (it.has(running), await it.known(running)) == ((True, True), True)


async def test_the_oldest_go_when_there_are_too_many_bytes(tmp_path: Path) -> None:
    """By their completion, no more than needed; the record says from then on that its file is gone."""
    async with house(tmp_path, files_s=1000, files_bytes=100) as it:
        jobs = []
        for _ in range(3):
            jobs.append(await it.complete(30, upload=5))
            it.now += S
        await it.keeper.round()
        assert [it.has(job) for job in jobs] == [(False, False), (True, True), (True, True)]
        assert (await it.store.get(jobs[0].id)).expires_us == it.now
        assert await it.store.get(jobs[1].id) == jobs[1]
        assert it.artifacts.held_bytes + it.uploads.held_bytes == 70
        assert (it.removed("size"), it.removed("age")) == (1, 0)


async def test_a_preview_counts(tmp_path: Path) -> None:
    """What is drawn beside a video later on is measured with it."""
    async with house(tmp_path, files_bytes=100) as it:
        first = await it.complete(60)
        await it.keeper.round()
        it.artifacts.file(first.id, "thumbnail.webp").write_bytes(bytes(30))
        it.artifacts.measure(first.id)
        it.now += S
        second = await it.complete(20)
        await it.keeper.round()
        assert (it.has(first)[0], it.has(second)[0]) == (False, True)


async def test_a_file_beyond_the_bound_stays_until_the_next(tmp_path: Path) -> None:
    """Who asked for it has a chance to fetch it."""
    async with house(tmp_path, files_bytes=100) as it:
        large = await it.complete(1000)
        await it.keeper.round()
        assert it.has(large)[0]
        it.now += S
        small = await it.complete(10)
        await it.keeper.round()
        assert (it.has(large)[0], it.has(small)[0]) == (False, True)


async def test_the_bound_holds_after_a_restart(tmp_path: Path) -> None:
    """What lies on the disk is counted at the start."""
    async with house(tmp_path) as it:
        first = await it.complete(60)
        it.now += S
        second = await it.complete(60)
    async with house(tmp_path, files_bytes=100) as it:
        await it.keeper.sweep()
        assert it.artifacts.held_bytes == 120
        await it.keeper.round()
        assert (it.has(first)[0], it.has(second)[0]) == (False, True)


async def test_a_start_removes_what_is_overdue_and_what_nobody_knows(tmp_path: Path) -> None:
    """Killed at any moment, a server leaves nothing that the next one does not put right."""
    async with house(tmp_path, files_s=100) as it:
        overdue, kept = await it.complete(upload=1), await it.begin()
        failed = await it.fail()
        for folders in (it.artifacts, it.uploads):  # killed before the record was written, or after its end
            folders.create(new_job().id)
            folders.create(failed.id)
    async with house(tmp_path, files_s=100) as it:
        it.now += 100 * S
        await it.keeper.sweep()
        assert it.has(overdue) == (False, True)
        assert it.artifacts.ids() == [kept.id]
        assert it.uploads.ids() == [overdue.id]
        assert it.removed("start") == 5


async def test_records_go_after_their_files(tmp_path: Path) -> None:
    """A record outlives its time while there is a file; the upload goes with it."""
    async with house(tmp_path, files_s=100, records_s=50) as it:
        done, failed, running = await it.complete(upload=3), await it.fail(), await it.begin()
        it.now += 49 * S
        assert await it.keeper.round() == 1
        assert await it.known(failed)
        it.now += S
        assert await it.keeper.round() == 50
        assert [await it.known(job) for job in (done, failed, running)] == [True, False, True]
        it.now += 50 * S
        await it.keeper.round()
        assert [await it.known(job) for job in (done, failed, running)] == [False, False, True]
        assert it.has(done) == (False, False)
        assert it.metrics.registry.get_sample_value("reelserve_jobs_forgotten_total") == 2


async def test_many_records_go_at_once(tmp_path: Path) -> None:
    """More than one statement takes."""
    async with house(tmp_path, records_s=10) as it:
        for _ in range(230):
            await it.store.add(
                replace(new_job(), created_us=it.now, completed_us=it.now, status=JobStatus.FAILED)
            )
        it.now += 10 * S
        await it.keeper.round()
        assert await it.store.ids() == set()


async def test_without_limits_all_stays(tmp_path: Path) -> None:
    """Null is for ever."""
    async with house(tmp_path) as it:
        done, failed = await it.complete(10**6), await it.fail()
        it.now += 10**9 * S
        assert await it.keeper.round() == LOOK_AGAIN_S
        assert (it.has(done)[0], await it.known(done), await it.known(failed)) == (True, True, True)
        assert (await it.store.get(done.id)).expires_us is None


async def test_old_keys_go_without_new_ones(tmp_path: Path) -> None:
    """A key means nothing after a day, whether or not another one comes."""
    async with house(tmp_path) as it:
        claim = it.keys.claim("key", "/v1/videos", VideoGenerationRequest(prompt="x"))
        await it.store.add(new_job(), claim)
        it.now += 25 * 3600 * S
        await it.keeper.round()
        assert await it.keys.find(replace(claim, now_us=START)) is None


async def test_memory_holds_only_what_the_disk_does(tmp_path: Path) -> None:
    """Nothing is noted of a job whose files are gone, however that came about."""
    async with house(tmp_path, files_s=10) as it:
        gone, deleted, kept = await it.complete(), await it.complete(), await it.complete(upload=1)
        await it.keeper.round()
        it.artifacts.remove(deleted.id)
        it.now += 10 * S
        await it.keeper.round()
        assert (it.keeper.holding, it.has(kept)[1]) == (1, True)
        assert [it.artifacts.holds(job.id) for job in (gone, deleted, kept)] == [False] * 3


async def test_a_clock_that_is_set_back_loses_nothing(tmp_path: Path) -> None:
    """Files stay longer then, and go when their time has come again."""
    async with house(tmp_path, files_s=100) as it:
        job = await it.complete()
        it.now -= 10**6 * S
        assert await it.keeper.round() == LOOK_AGAIN_S
        assert it.has(job)[0]
        it.now = START + 100 * S
        await it.keeper.round()
        assert not it.has(job)[0]


async def test_what_cannot_be_removed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After a pause, and nothing else waits for it."""
    async with house(tmp_path, files_s=10, records_s=10) as it:
        job, failed = await it.complete(), await it.fail()
        it.now += 10 * S
        with monkeypatch.context() as broken:
            broken.setattr("server.artifacts.shutil.rmtree", lambda *_, **__: None)
            broken.setattr(Path, "rename", lambda *_: (_ for _ in ()).throw(OSError("read-only")))
            assert await it.keeper.round() == TROUBLE_PAUSE_S
        assert (it.has(job)[0], await it.known(failed)) == (True, False)
        assert {record.__dict__["job_id"] for record in caplog.records} == {job.id}
        await it.keeper.round()
        assert not it.has(job)[0]


async def test_the_task_wakes_by_itself_and_survives_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """At the next expiry, at the end of a job, and after a round that failed."""
    monkeypatch.setattr("server.retention.TROUBLE_PAUSE_S", 0.01)
    caplog.set_level(logging.ERROR, "reelserve.files")
    async with house(tmp_path, files_s=0.5) as it:
        await it.keeper.start()
        with monkeypatch.context() as broken:
            broken.setattr(it.artifacts, "settle", lambda _: (_ for _ in ()).throw(OSError("unplugged")))
            broken.setattr(it.keys, "prune", lambda: (_ for _ in ()).throw(RuntimeError("no database")))
            job = await it.complete()
            async with asyncio.timeout(60):
                while "cannot be counted" not in caplog.text or "no database" not in caplog.text:
                    await asyncio.sleep(0.005)
        it.now += S
        it.ended.written()
        async with asyncio.timeout(60):
            while it.has(job)[0]:
                await asyncio.sleep(0.005)
        await it.keeper.stop()
