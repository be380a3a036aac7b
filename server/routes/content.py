"""The finished file."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Response

from server.errors import BadField, NotFound, VideoFailed, VideoNotReady
from server.jobs import Job, JobStatus
from server.openapi import content_answers, error_answers, header
from server.results import file_response, path_response
from server.services import ServicesDep

router = APIRouter(tags=["videos"])


@router.head("/v1/videos/{video_id}/content", include_in_schema=False)
@router.get(
    "/v1/videos/{video_id}/content",
    response_class=Response,
    responses=content_answers() | error_answers(BadField, NotFound, VideoNotReady, VideoFailed),
    openapi_extra=header("Range", "the bytes that are wanted", "bytes=0-1"),
)
async def get_content(
    video_id: str,
    services: ServicesDep,
    variant: Literal["video"] = "video",
    index: Annotated[int, Query(ge=0, description="which video of several, from 0")] = 0,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """The video; of several made by one request, number `index`. Answers ranges."""
    job = _finished(await services.store.get(video_id))
    if index >= len(job.files):
        raise BadField("index", f"{index} is not allowed: the request made {len(job.files)}, counted from 0")
    if job.resolved.response_format == "video_path" and "application/json" in accept:
        return path_response(job, index, services)
    return file_response(job, index, services)


def _finished(job: Job) -> Job:
    match job.status:
        case JobStatus.COMPLETED:
            return job
        case JobStatus.FAILED:
            code = "" if job.error is None else f" ({job.error.code})"
            raise VideoFailed(f"video {job.id} failed{code}: there is no file")
        case _:
            raise VideoNotReady(f"video {job.id} is {job.status}: there is no file so far")
