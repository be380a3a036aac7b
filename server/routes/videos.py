"""Jobs: make, list, look at, cancel, delete; and the routes that wait for the video."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse

from server.answers import Video, VideoDeleted, VideoList
from server.auth.middleware import OwnerDep
from server.errors import BadField, IllegalMove, JobFailed, JobNotStored, NotFound
from server.intake import submit
from server.openapi import REFUSED_AT_THE_DOOR, error_answers, request_body, waiting_answer
from server.results import as_stream, completed, created, result
from server.services import ServicesDep
from server.video import look, to_video
from server.waiting import patiently

router = APIRouter(tags=["videos"])

_UNKNOWN = error_answers(NotFound)
_WAITING = waiting_answer() | error_answers(*REFUSED_AT_THE_DOOR, JobFailed, JobNotStored)


@router.post(
    "/v1/videos",
    response_model=Video,
    responses=error_answers(*REFUSED_AT_THE_DOOR),
    openapi_extra=request_body(),
)
async def create_video(request: Request, services: ServicesDep) -> JSONResponse:
    """Queue a video; the answer says what will really be made."""
    return created(await submit(request, services, waits=False), services)


@router.post("/v1/videos/generations", responses=_WAITING, openapi_extra=request_body())
@router.post("/v1/videos/sync", responses=_WAITING, openapi_extra=request_body())
async def generate_video(request: Request, services: ServicesDep) -> Response:
    """Make a video and answer with it; a client that goes away cancels it."""
    submitted = await submit(request, services, waits=True)
    if submitted.live.job.resolved.stream and not submitted.repeated:
        return await as_stream(submitted, request, services)
    await patiently(submitted.live.ended.wait(), submitted.live, request, services)
    job = await completed(submitted.live, services)
    response = await result(job, request, services)
    response.headers.update(submitted.headers)
    return response


@router.get("/v1/videos", responses=error_answers(BadField, NotFound))
async def list_videos(
    owner: OwnerDep,
    services: ServicesDep,
    after: Annotated[str | None, Query(description="id of the job before the first one")] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="most jobs of the answer")] = 20,
    order: Annotated[Literal["asc", "desc"], Query(description="by time of creation")] = "desc",
) -> VideoList:
    """The jobs of this API key's owner, by time of creation."""
    roster = services.dispatcher.roster
    lives = roster.lives()
    jobs, more = await services.store.page(owner, after=after, limit=limit, order=order)
    # Those that have ended meanwhile, and those that have come.
    data = [to_video(job, lives.get(job.id) or roster.live(job.id), services.dispatcher) for job in jobs]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return VideoList(data=data, first_id=first, last_id=last, has_more=more)


@router.get("/v1/videos/{video_id}", responses=_UNKNOWN)
async def get_video(video_id: str, response: Response, owner: OwnerDep, services: ServicesDep) -> Video:
    """One job, as it is now; the header `openai-poll-after-ms` says when to ask again."""
    video, live = await look(video_id, owner, services)
    if live is not None and video.status in ("queued", "in_progress"):
        wait = services.dispatcher.pace.poll_after_ms(live, video.queue_position)
        response.headers["openai-poll-after-ms"] = str(wait)
    return video


@router.post("/v1/videos/{video_id}/cancel", responses=error_answers(NotFound, IllegalMove))
async def cancel_video(video_id: str, owner: OwnerDep, services: ServicesDep) -> Video:
    """Stop a job; it is `failed` then, with the code `cancelled`."""
    await services.store.owned(video_id, owner)
    return to_video(await services.dispatcher.cancel(video_id), None, services.dispatcher)


@router.delete("/v1/videos/{video_id}", responses=_UNKNOWN)
async def delete_video(video_id: str, owner: OwnerDep, services: ServicesDep) -> VideoDeleted:
    """Stop a job if it runs, and forget it; its files are gone when the answer comes."""
    await services.store.owned(video_id, owner)
    await services.dispatcher.delete(video_id)
    return VideoDeleted(id=video_id)
