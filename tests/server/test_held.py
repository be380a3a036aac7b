"""What a worker's end means for each task that it held."""

from __future__ import annotations

import asyncio

import pytest

from server.engine.base import DeviceFree, Failed, Finished, JobEvent, Progress, Started
from server.engine.held import HeldTasks, Place


def last_of(events: asyncio.Queue[JobEvent]) -> JobEvent:
    while True:
        event = events.get_nowait()
        if events.empty():
            return event


def failed(events: asyncio.Queue[JobEvent]) -> Failed:
    event = last_of(events)
    assert isinstance(event, Failed)
    return event


async def test_the_task_on_the_device_is_the_suspect() -> None:
    """The one that is only being encoded, and the one that has not begun, are victims."""
    held = HeldTasks()
    tail, running, waiting = held.add("tail"), held.add("running"), held.add("waiting")
    for event in (
        Started("tail"),
        DeviceFree("tail"),
        Started("running"),
        Progress("running", "denoise", 1, 2, 0.5),
    ):
        held.note(event)
    assert held.places() == {"tail": Place.TAIL, "running": Place.DEVICE, "waiting": Place.HANDED}
    held.bury("was killed by SIGSEGV")
    ends = [failed(events) for events in (tail, running, waiting)]
    assert [end.code for end in ends] == ["worker_crashed"] * 3
    assert [end.victim for end in ends] == [True, False, True]
    assert "SIGSEGV" in ends[1].message
    assert held.places() == {}


async def test_the_task_on_the_device_is_a_victim_of_a_tail_that_does_not_stop() -> None:
    """The server ended the worker for the other one's sake: that is known, and nobody is suspected."""
    held = HeldTasks()
    tail, running = held.add("tail"), held.add("running")
    for event in (Started("tail"), DeviceFree("tail"), Started("running")):
        held.note(event)
    held.stopping("tail", asyncio.get_running_loop().call_later(60, pytest.fail))
    held.bury("was ended because a cancelled job did not stop", known=True)
    ends = [failed(events) for events in (tail, running)]
    assert [(end.code, end.victim) for end in ends] == [("cancelled", False), ("worker_crashed", True)]


@pytest.mark.parametrize("place", [Place.HANDED, Place.DEVICE, Place.TAIL])
async def test_a_task_that_was_told_to_stop_was_cancelled(place: Place) -> None:
    """Whatever ended the worker: nobody wants it again."""
    held = HeldTasks()
    events = held.add("job")
    if place is not Place.HANDED:
        held.note(Started("job"))
    if place is Place.TAIL:
        held.note(DeviceFree("job"))
    held.stopping("job", asyncio.get_running_loop().call_later(60, pytest.fail))
    held.bury("stopped answering")
    end = failed(events)
    assert (end.code, end.victim) == ("cancelled", False)


async def test_the_time_to_stop_is_called_off_at_the_end() -> None:
    """Of two calls to stop the first one's time counts; when the job has ended none does."""
    held = HeldTasks()
    held.add("job")
    loop = asyncio.get_running_loop()
    first, second = (loop.call_later(60, pytest.fail) for _ in range(2))
    held.stopping("job", first)
    held.stopping("job", second)
    assert (first.cancelled(), second.cancelled()) == (False, True)
    held.note(Failed("job", "cancelled", "by the worker"))
    assert first.cancelled()
    assert "job" not in held


async def test_a_task_that_nobody_follows_is_held_until_it_ends() -> None:
    """Its worker is not free before, and its time to stop still counts."""
    held = HeldTasks()
    events = held.add("job")
    held.note(Started("job"))
    held.forget("job")
    assert "job" in held
    held.note(Finished("job", (), {}))
    assert "job" not in held
    assert isinstance(last_of(events), Started)
    held.note(Finished("stranger", (), {}))  # of a job that it never heard of
