"""Which task is where on a worker, and what the worker's end means for each."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum

from server.engine.base import DeviceFree, Failed, Finished, JobEvent, Started


class Place(Enum):
    """How far a task got; the words are for the log."""

    HANDED = "not begun"
    DEVICE = "on the device"
    TAIL = "being encoded"


@dataclass(slots=True)
class _Held:
    events: asyncio.Queue[JobEvent] | None
    """None when nobody wants them any more."""
    place: Place = Place.HANDED
    overdue: asyncio.TimerHandle | None = None
    """Set when it was told to stop: what happens if it does not."""


class HeldTasks:
    """The tasks that a worker holds, from the moment they are handed over to their last event."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Held] = {}

    def add(self, job_id: str) -> asyncio.Queue[JobEvent]:
        """Hold a task; its events appear in the queue."""
        events = asyncio.Queue[JobEvent]()
        self._by_id[job_id] = _Held(events)
        return events

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._by_id

    def forget(self, job_id: str) -> None:
        """The task's events are not wanted any more; it is held until it ends all the same."""
        if job_id in self._by_id:
            self._by_id[job_id].events = None

    def stopping(self, job_id: str, overdue: asyncio.TimerHandle) -> None:
        """The task was told to stop; `overdue` is called off when it ends. The first one counts."""
        held = self._by_id[job_id]
        if held.overdue is None:
            held.overdue = overdue
        else:
            overdue.cancel()

    def note(self, event: JobEvent) -> None:
        """Take an event of the worker, and pass it on."""
        if (held := self._by_id.get(event.job_id)) is None:
            return
        match event:
            case Started():
                held.place = Place.DEVICE
            case DeviceFree():
                held.place = Place.TAIL
        self._tell(held, event)
        if isinstance(event, Finished | Failed):
            self._drop(event.job_id)

    def places(self) -> dict[str, Place]:
        """Where each task is, by the job's id."""
        return {job_id: held.place for job_id, held in self._by_id.items()}

    def bury(self, how: str, *, known: bool = False) -> None:
        """The worker is gone, as `how` says: every task that it held fails.

        The one on the device is the suspect, unless the reason is `known` to be one that was told to stop.
        The others are victims. One that was told to stop was cancelled, whatever it was that ended it.
        """
        for job_id, held in tuple(self._by_id.items()):
            self._tell(held, _last_event(job_id, held, how, known))
            self._drop(job_id)

    def _tell(self, held: _Held, event: JobEvent) -> None:
        if held.events is not None:
            held.events.put_nowait(event)

    def _drop(self, job_id: str) -> None:
        held = self._by_id.pop(job_id)
        if held.overdue is not None:
            held.overdue.cancel()


def _last_event(job_id: str, held: _Held, how: str, known: bool) -> Failed:
    if held.overdue is not None:
        return Failed(job_id, "cancelled", "the job was cancelled")
    if held.place is Place.DEVICE:
        message = f"the worker process {how} while it ran this job"
        return Failed(job_id, "worker_crashed", message, victim=known)
    message = f"the worker process {how}; this job was not on the device"
    return Failed(job_id, "worker_crashed", message, victim=True)
