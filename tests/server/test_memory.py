"""The HTTP process holds nothing of jobs that have ended."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from server.jobs import Job
from server.live import LiveJob
from server.progress import JobProgress
from tests.server.running import serving


def alive(*kinds: type[object]) -> list[object]:
    """All objects of these types."""
    gc.collect()
    return [held for held in gc.get_objects() if type(held) in kinds]


async def test_ended_jobs_leave_nothing_in_memory(tmp_path: Path) -> None:
    """However they ended, looked at or not; with their files gone, not even their names."""
    before = len(alive(LiveJob, Job, JobProgress))
    async with serving(tmp_path / "data") as server:
        for count in range(1, 31):
            key = {"Idempotency-Key": f"key-{count}"}
            url = f"/v1/videos/{(await server.post(headers=key)).json()['id']}"
            await server.begun(count)
            match count % 3:
                case 0:
                    await server.finish(count)
                    await server.post(headers=key)
                case 1:
                    await server.client.post(f"{url}/cancel")
                case _:
                    await server.client.delete(url)
            await server.client.get(f"{url}/events")
        assert server.services.dispatcher.roster.lives() == {}
        assert len(alive(LiveJob, Job, JobProgress)) == before
        await server.services.keeper.round()
        assert server.services.keeper.holding == 10
        for job_id in server.services.artifacts.ids():
            await server.client.delete(f"/v1/videos/{job_id}")
        await server.services.keeper.round()
        assert server.services.keeper.holding == 0
        # The keeper's own, the dispatcher's own, and this one: no task stays behind for a job.
        assert len(asyncio.all_tasks()) < 10
