"""A finished video as the answer that its request asked for."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import FileResponse, JSONResponse, StreamingResponse
from pydantic import BaseModel

from encoding.formats import FORMATS
from server.answers import VideoBytesResult, VideoPathResult, VideoUrlResult
from server.errors import ApiError, BadRequest, JobFailed
from server.intake import Submitted
from server.jobs import Job, JobStatus
from server.services import Services
from server.video import server_timing, to_video
from server.waiting import patiently

ID_HEADER = "X-Video-Id"
"""Names the job behind an answer whose body is the file."""


class StreamBroken(Exception):
    """The job failed after its first bytes were sent: the connection ends without an end of the body."""


def completed(job: Job) -> Job:
    """The job, if it is completed.

    Raises:
        JobFailed, BadRequest: it failed, and the code says why.
    """
    if job.status is JobStatus.COMPLETED:
        return job
    assert job.error is not None
    error: ApiError = JobFailed(job.error.message, job.error.code)
    if job.error.code == "invalid_reference":
        error = BadRequest(job.error.message, code=job.error.code)
    raise error


def created(submitted: Submitted, services: Services) -> JSONResponse:
    """The job object of a job that was just queued."""
    video = to_video(submitted.live.job, submitted.live, services.dispatcher)
    status = services.settings.server.create_status
    return JSONResponse(video.model_dump(mode="json"), status, submitted.headers)


async def result(job: Job, request: Request, services: Services) -> Response:
    """The answer to the waiting request behind a completed job: its first output, in the form asked for."""
    match job.resolved.response_format:
        case "video_bytes":
            return file_response(job, 0, services)
        case "video_path":
            return path_response(job, 0, services)
        case "url":
            url = request.url_for("get_content", video_id=job.id)
            return _json(job, VideoUrlResult(video_id=job.id, url=str(url)))
        case "b64_json":
            text = await asyncio.to_thread(_base64, services.artifacts.file(job.id, job.files[0].name))
            return _json(job, VideoBytesResult(video_id=job.id, video_bytes=text))


def path_response(job: Job, index: int, services: Services) -> JSONResponse:
    """Where output `index` lies, for clients that share the disk."""
    path = services.artifacts.file(job.id, job.files[index].name)
    return _json(job, VideoPathResult(video_id=job.id, video_path=str(path)))


def file_response(job: Job, index: int, services: Services) -> FileResponse:
    """The file of output `index`: ranges, ETag, and a name to save it by."""
    kind, file = FORMATS[job.resolved.format], job.files[index]
    name = job.id if index == 0 else f"{job.id}-{index}"
    return FileResponse(
        services.artifacts.file(job.id, file.name),
        media_type=kind.media_type,
        filename=f"{name}{kind.suffix}",
        headers=_headers(job),
    )


async def as_stream(submitted: Submitted, request: Request, services: Services) -> Response:
    """A fragmented MP4 while it is made. Nothing is answered before its first bytes, so a failure until
    then is an ordinary error.
    """
    live = submitted.live
    first = await patiently(live.fragments.get(), live, request, services)
    if first is None:
        completed(await services.store.get(live.job.id))
    headers = submitted.headers | {ID_HEADER: live.job.id}
    return StreamingResponse(_pieces(submitted, first, services), media_type="video/mp4", headers=headers)


async def _pieces(submitted: Submitted, first: bytes | None, services: Services) -> AsyncIterator[bytes]:
    live, piece = submitted.live, first
    try:
        while piece is not None:
            yield piece
            piece = await live.fragments.get()
        if live.job.status is not JobStatus.COMPLETED:
            raise StreamBroken(f"job {live.job.id} is {live.job.status}")
    finally:
        services.dispatcher.abandon_soon(live.job.id)


def _headers(job: Job) -> dict[str, str]:
    return {"Server-Timing": server_timing(job.timings), ID_HEADER: job.id}


def _json(job: Job, body: BaseModel) -> JSONResponse:
    return JSONResponse(body.model_dump(), headers=_headers(job))


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")
