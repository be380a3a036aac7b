"""Many clients at once, over the whole server: nothing that they see contradicts itself, nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from server import connections
from tests.server.running import Server, serving
from tests.server.scripted import ScriptedEngine

POLLERS, CREATORS, DELETERS = 64, 8, 2
SLOTS = 8
"""Jobs that the engine runs side by side."""
EACH = 6
"""Jobs of a creator."""
HZ = 10
RANK = {"queued": 0, "in_progress": 1, "completed": 2, "failed": 2}
"""A job never goes back."""


@dataclass
class Crowd:
    """The clients, what they were told, and what the engine did."""

    server: Server
    made: list[str] = field(default_factory=list)
    deleting: set[str] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    ends: dict[str, str] = field(default_factory=dict)
    over: bool = False

    async def get(self, path: str, **query: Any) -> tuple[int, Any]:
        answer = await self.server.client.get(path, params=query)
        assert answer.status_code < 500, answer.text
        return answer.status_code, answer.json()

    async def create(self) -> None:
        for _ in range(EACH):
            answer = await self.server.post()
            assert answer.status_code == 200, answer.text
            self.made.append(answer.json()["id"])
            await asyncio.sleep(0.1)

    async def delete(self, dice: random.Random) -> None:
        """Every now and then, whatever state a job is in; afterwards it is gone. Some are left."""
        while not self.over and len(self.deleting) < CREATORS * EACH / 2:
            await asyncio.sleep(0.05)
            if not (left := [job_id for job_id in self.made if job_id not in self.deleting]):
                continue
            job_id = dice.choice(left)
            self.deleting.add(job_id)
            answer = await self.server.client.delete(f"/v1/videos/{job_id}")
            assert answer.status_code == 200, answer.text
            self.deleted.add(job_id)
            status, _ = await self.get(f"/v1/videos/{job_id}")
            assert status == 404

    async def poll(self, dice: random.Random) -> None:
        """Look at one job after another; each is as far as it was when last seen, or further."""
        seen: dict[str, int] = {}
        while not self.over:
            await asyncio.sleep(1 / HZ)
            if dice.random() < 0.03:
                await self._look_at_all()
            elif self.made:
                await self._look_at(dice.choice(self.made), seen)

    async def _look_at(self, job_id: str, seen: dict[str, int]) -> None:
        gone = job_id in self.deleted
        status, body = await self.get(f"/v1/videos/{job_id}")
        if status == 404:
            assert job_id in self.deleting, f"{job_id} is lost"
            return
        assert not gone, f"{job_id} came back"
        rank = RANK[body["status"]]
        assert rank >= seen.get(job_id, 0), body
        seen[job_id] = rank

    async def _look_at_all(self) -> None:
        before = set(self.deleted)
        _, page = await self.get("/v1/videos", limit=20)
        ids = [video["id"] for video in page["data"]]
        assert len(ids) == len(set(ids))
        assert not before.intersection(ids)
        places = [video["created_at"] for video in page["data"]]
        assert places == sorted(places, reverse=True)

    async def work(self) -> None:
        """The engine's side: every third job fails, the others are completed."""
        engine, done = self.server.engine, 0
        while True:
            while done == len(engine.begun):
                await asyncio.sleep(0.002)
            job_id = engine.begun[done]
            done += 1
            self.ends[job_id] = "failed" if done % 3 == 0 else "completed"
            if self.ends[job_id] == "failed":
                engine.fail(job_id, "out_of_memory")
                continue
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile, folder and all
                engine.finish(job_id)


def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - repeatable, not secret


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a connection is not refused because this machine is busy with something else."""
    for pool in (connections.SQLITE_POOL, connections.POSTGRES_POOL):
        monkeypatch.setitem(pool, "pool_timeout", 240)


@pytest.mark.usefixtures("_patient")
@pytest.mark.timeout(600)
async def test_no_update_is_lost(tmp_path: Path, database_url: str) -> None:
    """64 pollers at 10 Hz, 8 creators, 2 deleters: no 5xx, every job ends as it should or stays gone."""
    sections: dict[str, Any] = {"store": {"url": database_url}, "queue": {"max_jobs": 1000}}
    async with serving(tmp_path, ScriptedEngine(SLOTS), **sections) as server:
        crowd = Crowd(server)
        async with asyncio.TaskGroup() as tasks:
            working = tasks.create_task(crowd.work())
            for number in range(POLLERS):
                tasks.create_task(crowd.poll(dice(number)))
            for number in range(DELETERS):
                tasks.create_task(crowd.delete(dice(number)))
            creating = [tasks.create_task(crowd.create()) for _ in range(CREATORS)]
            await asyncio.gather(*creating)
            async with asyncio.timeout(480):
                while server.services.dispatcher.roster.lives():
                    await asyncio.sleep(0.01)
            crowd.over = True
            working.cancel()
        left = {job_id for job_id in crowd.made if job_id not in crowd.deleted}
        assert len(crowd.made) == len(set(crowd.made)) == CREATORS * EACH
        assert crowd.deleted
        assert left
        assert await server.services.store.ids() == left
        for job_id in left:
            _, video = await crowd.get(f"/v1/videos/{job_id}")
            assert (job_id, video["status"]) == (job_id, crowd.ends[job_id])
        folders = {path.name for path in (tmp_path / "artifacts").iterdir()}
        assert folders == {job_id for job_id in left if crowd.ends[job_id] == "completed"}
    async with serving(tmp_path, **sections) as again:
        assert again.services.dispatcher.roster.lives() == {}
        assert await again.services.store.ids() == left
