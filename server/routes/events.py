"""A job's way to its end, as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.sse import EventSourceResponse, ServerSentEvent

from server.answers import VideoEvent
from server.auth.middleware import OwnerDep
from server.errors import NotFound
from server.jobs import Job
from server.live import LiveJob
from server.openapi import error_answers
from server.services import Services, ServicesDep
from server.video import look, to_event

router = APIRouter(tags=["videos"])


async def _existing(video_id: str, owner: OwnerDep, services: ServicesDep) -> Job:
    """The job, found before the stream begins: a wrong id is an ordinary 404."""
    return await services.store.owned(video_id, owner)


@router.get(
    "/v1/videos/{video_id}/events", response_class=EventSourceResponse, responses=error_answers(NotFound)
)
async def get_events(
    job: Annotated[Job, Depends(_existing)], services: ServicesDep
) -> AsyncIterator[ServerSentEvent]:
    """Status, stage, step, percent and place in the queue at every change, until the job has ended.

    Events are named `progress`, and at last `completed`, `failed` or `deleted`. A comment is sent every 15 s.
    """
    last: VideoEvent | None = None
    while True:
        change = services.dispatcher.roster.changes.next()
        event, live = await _look(job, services)
        if event is None:
            yield ServerSentEvent(data={"id": job.id}, event="deleted")
            return
        if event != last:
            yield ServerSentEvent(data=event, event=event.name)
        if event.ended or live is None:  # left to the next server: nothing more will be heard of it here
            return
        last = event
        await change.wait()


async def _look(job: Job, services: Services) -> tuple[VideoEvent | None, LiveJob | None]:
    try:
        video, live = await look(job.id, job.owner, services)
    except NotFound:
        return None, None
    return to_event(video, live), live
