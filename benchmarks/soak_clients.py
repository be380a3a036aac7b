"""Clients that make videos in all the ways that there are, and say what became of each."""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import av
import httpx

STEADY_S = 0.1
"""Between two looks of a client that does not do as it is told."""
LEAST_PAUSE_S = 0.01


@dataclass(slots=True)
class Made:
    """A job as its client knows it."""

    id: str
    way: str
    outcome: str = "unknown"
    """completed, or the code of its error; of one that was deleted, what it was before that."""
    deleted: bool = False


@dataclass(slots=True)
class Seen:
    """What all clients saw."""

    jobs: list[Made] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    """How long each look at a job took."""
    problems: list[str] = field(default_factory=list)


async def soak(client: httpx.AsyncClient, fields: Mapping[str, Any], *, jobs: int, clients: int) -> Seen:
    """So many clients make so many jobs between them; each makes its next one when it is done with one."""
    seen = Seen()
    numbers = iter(range(jobs))
    async with asyncio.TaskGroup() as group:
        for number in range(clients):
            one = Client(client, fields, seen, random.Random(number))  # noqa: S311 - no secret
            group.create_task(one.work(numbers))
    return seen


class Client:
    """Makes one job after the other."""

    def __init__(
        self, client: httpx.AsyncClient, fields: Mapping[str, Any], seen: Seen, chance: random.Random
    ) -> None:
        self._client = client
        self._fields = fields
        self._seen = seen
        self._chance = chance
        ways: Mapping[str, Callable[[int], Awaitable[None]]] = {
            "polls as told": self._polls,
            "polls at 10 Hz": self._polls_steadily,
            "polls and deletes": self._deletes_after,
            "waits": self._waits,
            "cancels": self._cancels,
            "deletes": self._deletes,
        }
        self._ways = [(name, way) for name, way in ways.items() for _ in range(WEIGHTS[name])]

    async def work(self, numbers: Iterator[int]) -> None:
        """Take numbers until there are none left; the number says what is done."""
        for number in numbers:
            name, way = self._ways[number % len(self._ways)]
            try:
                await way(number)
            except (httpx.HTTPError, av.error.FFmpegError, AssertionError) as error:
                self._seen.problems.append(f"job {number} ({name}): {error!r}")

    async def _polls(self, number: int) -> None:
        await self._download(await self._end_of(await self._create("polls as told", number)))

    async def _polls_steadily(self, number: int) -> None:
        made = await self._create("polls at 10 Hz", number)
        await self._download(await self._end_of(made, steady_s=STEADY_S))

    async def _deletes_after(self, number: int) -> None:
        made = await self._end_of(await self._create("polls and deletes", number))
        await self._download(made)
        await self._delete(made)

    async def _waits(self, number: int) -> None:
        answer = (await self._client.post("/v1/videos/sync", json=self._asked(number))).raise_for_status()
        self._seen.jobs.append(Made(answer.headers["x-video-id"], "waits", "completed"))
        await self._play(answer.content)

    async def _cancels(self, number: int) -> None:
        """At any moment: the answer is the cancelled job, or 409 where it was faster."""
        made = await self._create("cancels", number)
        await asyncio.sleep(self._chance.random())
        answer = await self._client.post(f"/v1/videos/{made.id}/cancel")
        if answer.status_code == httpx.codes.CONFLICT:
            await self._download(await self._end_of(made))
            return
        made.outcome = answer.raise_for_status().json()["error"]["code"]
        assert made.outcome == "cancelled", made.outcome

    async def _deletes(self, number: int) -> None:
        """At any moment, whatever the job is at."""
        made = await self._create("deletes", number)
        await asyncio.sleep(self._chance.random())
        await self._delete(made)

    async def _create(self, way: str, number: int) -> Made:
        while True:
            answer = await self._client.post("/v1/videos", json=self._asked(number))
            if answer.status_code != httpx.codes.TOO_MANY_REQUESTS:
                break
            await asyncio.sleep(float(answer.headers["retry-after"]))
        made = Made(answer.raise_for_status().json()["id"], way)
        self._seen.jobs.append(made)
        return made

    def _asked(self, number: int) -> dict[str, Any]:
        return {**self._fields, "seed": number}

    async def _end_of(self, made: Made, steady_s: float | None = None) -> Made:
        """Look until the job has ended; a state that it has left never comes back."""
        order, last = ("queued", "in_progress", "completed"), 0
        while True:
            started = time.monotonic()
            answer = (await self._client.get(f"/v1/videos/{made.id}")).raise_for_status()
            self._seen.waits_s.append(time.monotonic() - started)
            video = answer.json()
            if video["status"] == "failed":
                made.outcome = video["error"]["code"]
                raise AssertionError(f"{made.id} failed: {made.outcome}")
            place = order.index(video["status"])
            assert place >= last, f"{made.id} is {video['status']} again"
            last = place
            if video["status"] == "completed":
                made.outcome = "completed"
                return made
            told_s = float(answer.headers["openai-poll-after-ms"]) / 1000
            await asyncio.sleep(max(told_s if steady_s is None else steady_s, LEAST_PAUSE_S))

    async def _download(self, made: Made) -> None:
        answer = await self._client.get(f"/v1/videos/{made.id}/content")
        await self._play(answer.raise_for_status().content)

    async def _play(self, content: bytes) -> None:
        frames = await asyncio.to_thread(_frames, content)
        wanted = self._fields.get("num_frames", frames)
        assert frames == wanted > 0, f"{frames} frames, {wanted} were asked for"

    async def _delete(self, made: Made) -> None:
        answer = (await self._client.delete(f"/v1/videos/{made.id}")).raise_for_status()
        assert answer.json()["deleted"] is True
        made.deleted = True
        gone = await self._client.get(f"/v1/videos/{made.id}")
        assert gone.status_code == httpx.codes.NOT_FOUND, f"{made.id} is back after its deletion"


WEIGHTS: Mapping[str, int] = {
    "polls as told": 6,
    "polls at 10 Hz": 4,
    "polls and deletes": 3,
    "waits": 3,
    "cancels": 2,
    "deletes": 2,
}
"""Of 20 jobs, how many are made in which way."""


def _frames(content: bytes) -> int:
    """How many frames a decoder finds."""
    with av.open(io.BytesIO(content), "r") as container:
        return len(list(container.decode(container.streams.video[0])))
