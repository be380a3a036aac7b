from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from server.errors import IllegalMove
from server.jobs import JobStatus
from server.store import Store
from tests.postgres import Cluster, Postgres
from tests.server.running import Server, serving
from tests.server.scripted import new_job

pytestmark = pytest.mark.postgres


@pytest.fixture
def cluster(postgres: Postgres) -> Cluster:
    if not isinstance(postgres, Cluster):
        pytest.skip("TEST_POSTGRES_URL is not ours to stop")
    return postgres


@pytest.fixture
async def server(tmp_path: Path, postgres: Postgres) -> AsyncIterator[Server]:
    with postgres.database() as url:
        async with serving(tmp_path, store={"url": url}) as opened:
            yield opened


def database_of(server: Server) -> str:
    url = server.services.settings.store.url
    assert url is not None
    return url


async def test_lost_connections_are_replaced(server: Server, postgres: Postgres) -> None:
    """PostgreSQL ends all of them, as in a quick restart: no request sees it, however many come."""
    job = (await server.post()).json()["id"]
    paths = [f"/v1/videos/{job}", "/v1/videos"] * 20
    await asyncio.gather(*(server.client.get(path) for path in paths))
    await asyncio.to_thread(postgres.disconnect, database_of(server))
    answers = await asyncio.gather(*(server.client.get(path) for path in paths))
    assert {answer.status_code for answer in answers} == {200}
    assert (await server.post()).status_code == 200


async def test_an_outage_is_answered_and_ends(
    server: Server, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Without its database the server says when to come again, and what runs comes to its end after it."""
    job = (await server.post()).json()["id"]
    await server.runs()
    queued = (await server.post()).json()["id"]
    live = server.services.dispatcher.roster.live(job)
    assert live is not None
    await asyncio.to_thread(cluster.stop)
    try:
        for refused in (await server.client.get("/v1/videos"), await server.post()):
            assert refused.status_code == 503, refused.text
            assert refused.json()["error"]["code"] == "store_unavailable"
            assert int(refused.headers["retry-after"]) > 0
        server.engine.finish(job)
        assert (await server.client.get("/live")).status_code == 200
        running = await server.client.get(f"/v1/videos/{job}")  # needs no database
        assert running.json()["status"] == "in_progress"
    finally:
        cluster.start()
    async with asyncio.timeout(60):
        await live.ended.wait()
    done = (await server.client.get(f"/v1/videos/{job}")).json()
    assert (done["status"], done["progress"]) == ("completed", 100)
    assert (await server.client.get(f"/v1/videos/{job}/content")).content == b"video"
    assert await server.finish(2) == queued
    ids = {video["id"] for video in (await server.client.get("/v1/videos")).json()["data"]}
    assert ids == {job, queued}  # the one that was refused does not come back
    told = [record.message for record in caplog.records if record.name == "reelserve.store"]
    assert told.count("the database cannot be used") == 1
    assert told.count("the database can be used again") == 1


async def test_what_could_not_be_written_down_is_taken_up_by_the_next_start(
    tmp_path: Path, cluster: Cluster
) -> None:
    """The server is stopped in the outage: it does stop, and the job runs again."""
    with cluster.database() as url:
        async with serving(tmp_path, store={"url": url}) as server:
            job = (await server.post()).json()["id"]
            await server.begun()
            live = server.services.dispatcher.roster.live(job)
            assert live is not None
            await asyncio.to_thread(cluster.stop)
            server.engine.finish(job)
            async with asyncio.timeout(60):
                await live.refused.wait()
        cluster.start()
        async with serving(tmp_path, store={"url": url}) as server:
            assert await server.finish() == job
            assert (await server.client.get(f"/v1/videos/{job}")).json()["status"] == "completed"


async def test_a_move_whose_answer_was_lost_is_not_made_twice(store: Store) -> None:
    """The transaction was committed and the connection broke first: the second attempt changes nothing."""
    job = new_job()
    await store.add(job)
    made = await store.move(job.id, JobStatus.IN_PROGRESS, attempts=1)
    assert await store.move(job.id, JobStatus.IN_PROGRESS, again=True, attempts=1) == made
    with pytest.raises(IllegalMove):
        await store.move(job.id, JobStatus.IN_PROGRESS, attempts=2)
    with pytest.raises(IllegalMove):
        await store.move(job.id, JobStatus.IN_PROGRESS)
    await store.move(job.id, JobStatus.COMPLETED)
    with pytest.raises(IllegalMove):
        await store.move(job.id, JobStatus.FAILED, again=True)
