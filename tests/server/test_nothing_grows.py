"""What the server keeps in memory does not depend on how many jobs there have been."""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from server.services import Services
from tests.server.running import Server, serving

WARM, MORE = 40, 60
OBJECTS_A_JOB = 0.5
"""Fewer than any leak: one kept object a job is 1. Caches that fill up may take more, but only once."""
BOUNDED = "weakref.ReferenceType"
"""Each connection of sqlite3 keeps those of up to 200 dead cursors."""


def sizes(services: Services) -> dict[str, int]:
    """The length of every container that the parts of the server hold, by where it is."""
    return dict(_sizes(services, "services", set()))


def _sizes(holder: object, name: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    if id(holder) in seen:
        return
    seen.add(id(holder))
    if isinstance(holder, dict | list | set | deque):
        yield name, len(holder)
    if isinstance(holder, dict | list | tuple):
        values = holder.values() if isinstance(holder, dict) else holder
        for value in values:
            yield from _sizes(value, f"{name}[]", seen)
    elif type(holder).__module__.startswith("server."):
        for attribute in sorted(_attributes(holder)):
            yield from _sizes(getattr(holder, attribute), f"{name}.{attribute}", seen)


def _attributes(holder: object) -> set[str]:
    slots = {name for kind in type(holder).__mro__ for name in getattr(kind, "__slots__", ())}
    return {*vars(holder)} if hasattr(holder, "__dict__") else slots


async def live(server: Server, count: int) -> None:
    """So many jobs, one after the other, from their creation to their deletion."""
    for _ in range(count):
        video_id = (await server.post()).raise_for_status().json()["id"]
        assert await server.finish(1) == video_id
        url = f"/v1/videos/{video_id}"
        assert (await server.client.get(url)).json()["status"] == "completed"
        assert (await server.client.get(f"{url}/content")).content == b"video"
        (await server.client.delete(url)).raise_for_status()
        forget(server)
    await server.services.keeper.round()  # it looks at them in its own time


def forget(server: Server) -> None:
    """The scripted engine is the far end, and remembers for tests."""
    for memory in vars(server.engine).values():
        if isinstance(memory, dict | list):
            memory.clear()


def objects() -> Counter[str]:
    """What there is, by type, without what is garbage."""
    for _ in range(3):
        gc.collect()
    found = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
    del found[BOUNDED]
    return found


async def test_hundreds_of_jobs_leave_nothing_behind(tmp_path: Path) -> None:
    """Not in any container, not in the metrics, and not in what the collector knows."""
    async with serving(tmp_path) as server:
        await live(server, WARM)
        first, held, samples = objects(), sizes(server.services), series(server)
        await live(server, MORE)
        second = objects()
        await live(server, MORE)
        third, now = objects(), sizes(server.services)
        assert series(server) == samples
        grown = {name: (held.get(name, 0), size) for name, size in now.items() if size > held.get(name, 0)}
        assert grown == {}
        assert len(held) > 10
    both_times = (second - first) & (third - second)
    assert {name: count for name, count in both_times.items() if count > OBJECTS_A_JOB * MORE} == {}


def series(server: Server) -> int:
    """How many time series Prometheus would store."""
    return sum(len(family.samples) for family in server.services.metrics.registry.collect())


async def test_what_grows_is_seen(tmp_path: Path) -> None:
    """The test above can fail: an entry in a dictionary, deep in a part of the server."""
    async with serving(tmp_path) as server:
        before = sizes(server.services)
        leak: Any = server.services.dispatcher.roster
        leak._live["video_1"] = object()
        after = sizes(server.services)
        del leak._live["video_1"]
        grown = [name for name, size in after.items() if size > before.get(name, 0)]
        assert [name.rpartition(".")[2] for name in grown] == ["_live"]
