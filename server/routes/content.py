"""The finished file, and pictures that show what is in it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response

from encoding.formats import FORMATS
from encoding.previews import PREVIEWS
from server.accept import prefers
from server.auth.middleware import OwnerDep
from server.errors import (
    BadField,
    FileMissing,
    NotFound,
    PreviewFailed,
    RangeNotSatisfiable,
    StorageUnavailable,
    VideoExpired,
    VideoFailed,
    VideoNotReady,
)
from server.jobs import Job, JobStatus
from server.openapi import content_answers, error_answers, header
from server.results import file_response, path_response, preview_response
from server.services import Services, ServicesDep

router = APIRouter(tags=["videos"])

REFUSALS = (
    BadField,
    NotFound,
    VideoNotReady,
    VideoFailed,
    VideoExpired,
    FileMissing,
    RangeNotSatisfiable,
    PreviewFailed,
    StorageUnavailable,
)


@router.head("/v1/videos/{video_id}/content", include_in_schema=False)
@router.get(
    "/v1/videos/{video_id}/content",
    response_class=Response,
    responses=content_answers() | error_answers(*REFUSALS),
    openapi_extra=header("Range", "the bytes that are wanted", "bytes=0-1"),
)
async def get_content(
    video_id: str,
    request: Request,
    owner: OwnerDep,
    services: ServicesDep,
    variant: Annotated[
        Literal["video", "thumbnail", "spritesheet"], Query(description="the file, or a picture of it")
    ] = "video",
    index: Annotated[int, Query(ge=0, description="which video of several, from 0")] = 0,
) -> Response:
    """The video, or its thumbnail or spritesheet; of several videos, number `index`. Answers ranges.

    A thumbnail is the frame in the middle as WebP, its longer side at most 512 pixels. A spritesheet is
    a JPEG of up to 25 frames in rows of five, spread evenly over the video from its first frame on, the
    longer side of each at most 160 pixels; `X-Spritesheet-Columns`, `-Rows` and `-Tiles` tell its grid.
    """
    job = _finished(await services.store.owned(video_id, owner))
    if index >= len(job.files):
        raise BadField("index", f"{index} is not allowed: the request made {len(job.files)}, counted from 0")
    if variant != "video":
        return await preview_response(job, index, PREVIEWS[variant], request, services)
    if not _may_tell_path(job, services):
        return await file_response(job, index, request, services)
    wants_path = prefers(_accepted(request), "application/json", FORMATS[job.resolved.format].media_type)
    response = await (
        path_response(job, index, services) if wants_path else file_response(job, index, request, services)
    )
    response.headers["Vary"] = "Accept"
    return response


def _may_tell_path(job: Job, services: Services) -> bool:
    """Whether the request asked for the path, and the operator (still) allows it."""
    return job.resolved.response_format == "video_path" and services.settings.artifacts.expose_paths


def _accepted(request: Request) -> str:
    return ",".join(request.headers.getlist("accept")) or "*/*"


def _finished(job: Job) -> Job:
    match job.status:
        case JobStatus.COMPLETED:
            return job
        case JobStatus.FAILED:
            code = "" if job.error is None else f" ({job.error.code})"
            raise VideoFailed(f"video {job.id} failed{code}: there is no file")
        case _:
            raise VideoNotReady(f"video {job.id} is {job.status}: there is no file so far")
