from __future__ import annotations

import asyncio
from typing import get_args

import pytest
from sqlalchemy.exc import IntegrityError

from benchmarks.scrape import Scrape
from server.engine.base import JobErrorCode
from server.engine.restarts import EndReason
from server.metrics import OUTCOMES, STAGES
from tests.server.logged import writing
from tests.server.running import Server
from tests.server.scraped import scrape

TEXT = {"model": "text"}


async def fail(server: Server, count: int, code: JobErrorCode, *, victim: bool = False) -> str:
    job_id = await server.begun(count)
    live = server.services.dispatcher.roster.live(job_id)
    assert live is not None
    server.engine.fail(job_id, code, victim=victim)
    if not victim:
        await live.ended.wait()
    return job_id


async def test_what_is_served_is_there_from_the_start(server: Server) -> None:
    """At 0, so that the first event of any kind is an increase that an alert can see."""
    now = await scrape(server.client)
    for outcome in OUTCOMES:
        assert ("reelserve_jobs_ended_total", frozenset({("outcome", outcome), *TEXT.items()})) in now.samples
    for name in ("created", "queued_again"):
        assert (f"reelserve_jobs_{name}_total", frozenset(TEXT.items())) in now.samples


async def test_a_completed_job_is_measured(server: Server) -> None:
    """The engine says: 2 s of generation, of them 1 denoise and 0.5 decode; encoding added 0.25."""
    server.engine.idle_s = 0.02
    before = await scrape(server.client)
    await server.post()
    job_id = await server.begun()
    during = await scrape(server.client)
    await server.finish()
    job = await server.services.store.get(job_id)
    now = await scrape(server.client)
    assert during.value("reelserve_queue_depth", state="in_progress") == 1
    assert now.value("reelserve_queue_depth", state="in_progress") == 0
    assert now.since(before, "reelserve_jobs_created_total", **TEXT) == 1
    assert now.since(before, "reelserve_jobs_ended_total", **TEXT, outcome="completed") == 1
    sums = {"prepare": 0.5, "denoise": 1.0, "decode": 0.5, "encode": 0.25}
    assert set(sums) == set(STAGES)
    for stage, seconds in sums.items():
        assert now.since(before, "reelserve_stage_seconds_sum", **TEXT, stage=stage) == seconds
    for name, seconds in {"generation": 2.0, "job": job.timings["total"]}.items():
        assert now.since(before, f"reelserve_{name}_seconds_sum", **TEXT) == seconds
    waited = now.value("reelserve_queue_wait_seconds_sum", **TEXT)
    assert waited == pytest.approx(job.timings["queue"])
    assert now.since(before, "reelserve_encode_added_ratio_sum", **TEXT) == 0.125
    assert now.since(before, "reelserve_stored_bytes_total", **TEXT, format="mp4") == len(b"video")
    # It was free for 20 ms, but had something to do only since there was this job.
    assert now.value("reelserve_device_idle_seconds_sum") == pytest.approx(min(0.02, waited))


async def test_every_end_has_its_count(server: Server) -> None:
    """Out of memory, cancelled in the queue, run again after another job's crash, deleted."""
    for _ in range(2):
        await server.post()
    waiting = (await server.post()).json()["id"]
    before = await scrape(server.client)
    assert before.value("reelserve_queue_depth", state="queued") == 2
    await server.client.post(f"/v1/videos/{waiting}/cancel")
    await fail(server, 1, "out_of_memory")
    await fail(server, 2, "worker_crashed", victim=True)
    done = await server.finish(3)
    await server.client.delete(f"/v1/videos/{done}")
    now = await scrape(server.client)
    for outcome in ("cancelled", "out_of_memory", "completed"):
        assert now.since(before, "reelserve_jobs_ended_total", **TEXT, outcome=outcome) == 1
    assert now.since(before, "reelserve_jobs_ended_total", **TEXT, outcome="worker_crashed") == 0
    assert now.since(before, "reelserve_jobs_queued_again_total", **TEXT) == 1
    assert now.since(before, "reelserve_jobs_deleted_total") == 1
    # The second start of a job says nothing about how long it waited.
    assert now.value("reelserve_queue_wait_seconds_count", **TEXT) == 2
    assert now.value("reelserve_queue_depth", state="queued") == 0


async def test_workers_that_end_are_counted(server: Server) -> None:
    """By reason, at 0 from the start; and how many are up."""
    before = await scrape(server.client)
    assert before.value("reelserve_workers", state="up") == before.value("reelserve_ready") == 1
    server.engine.worker_ended("silent")
    server.engine.ready = False
    now = await scrape(server.client)
    for reason in get_args(EndReason):
        assert ("reelserve_worker_ends_total", frozenset({("reason", reason)})) in before.samples
        grown = now.since(before, "reelserve_worker_ends_total", reason=reason)
        assert grown == (1 if reason == "silent" else 0)
    assert (now.value("reelserve_workers", state="up"), now.value("reelserve_ready")) == (0, 0)
    assert now.value("reelserve_workers", state="down") == 1


async def test_errors_of_the_database_are_counted(server: Server) -> None:
    """By the name of their class; one that a client causes makes no label of its own."""
    job = (await server.client.get(f"/v1/videos/{(await server.post()).json()['id']}")).json()
    with pytest.raises(IntegrityError):
        await server.services.store.add(await server.services.store.get(job["id"]))
    now = await scrape(server.client)
    assert now.value("reelserve_database_errors_total", kind="IntegrityError") == 1
    assert now.value("reelserve_database_down_seconds") == 0


async def test_a_stream_tells_when_its_first_piece_was_there(server: Server) -> None:
    """Once a job, however many pieces follow."""
    asking = asyncio.create_task(server.post("/v1/videos/sync", stream=True))
    job_id = await server.begun()
    for _ in range(2):
        server.engine.fragment(job_id, b"piece")
    await server.finish()
    assert (await asking).content == b"piecepiece"
    now = await scrape(server.client)
    assert now.value("reelserve_first_fragment_seconds_count", **TEXT) == 1
    assert now.value("reelserve_first_fragment_seconds_sum", **TEXT) < now.value(
        "reelserve_job_seconds_sum", **TEXT
    )


async def test_models_are_kept_apart(server: Server) -> None:
    """And an alias is no other model."""
    for model in ("text", "sora-2", "both"):
        assert (await server.post(model=model)).status_code == 200, model
    now = await scrape(server.client)
    created = {
        dict(labels)["model"]: value
        for (name, labels), value in now.samples.items()
        if name == "reelserve_jobs_created_total"
    }
    assert created == {"text": 2, "both": 1}


async def test_one_line_for_each_event_of_a_job(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """All with its id; the first one also names the request that made it."""
    prompt = "a secret circle"
    with writing(caplog):
        made = await server.post(prompt=prompt, headers={"x-request-id": "req-7"})
        await fail(server, 1, "worker_crashed", victim=True)
        done = await server.finish(2)
        await server.client.delete(f"/v1/videos/{done}")
        await server.post(prompt=prompt)
        await fail(server, 3, "encoding_failed")
        await server.post(prompt=prompt)
        await server.client.post(f"/v1/videos/{await server.begun(4)}/cancel")
    said = [line for line in caplog.text.splitlines() if " reelserve.jobs: " in line]
    events = [line.partition(" reelserve.jobs: ")[2].partition(" request_id=")[0] for line in said]
    told = [event.partition(" job_id=")[0] for event in events]
    ours = [name for name, line in zip(told, said, strict=True) if f"job_id={done}" in line]
    again = ["job queued", "job started", "job queued again", "job started", "job completed", "job deleted"]
    assert ours == again
    others = ["job queued", "job started", "job failed", "job queued", "job started", "job cancelled"]
    assert told[len(again) :] == others
    assert "request_id=req-7" in said[0]
    assert made.json()["id"] == done
    assert 'timings={"generation": 2.0, "denoise": 1.0' in said[4]
    assert "code=encoding_failed" in said[8]
    assert " WARNING " in said[8]
    assert not any("secret" in line for line in said)


def test_a_scrape_sees_what_is_not_there() -> None:
    """The tests above can fail."""
    empty = Scrape("")
    assert empty.value("reelserve_ready") == 0.0
    assert empty.label_values() == set()
