"""A finished video as the answer that its request asked for."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from encoding.formats import FORMATS
from encoding.previews import Preview
from server.answers import VideoBytesResult, VideoPathResult, VideoUrlResult
from server.downloads import Download, send
from server.errors import ApiError, BadRequest, FileMissing, JobFailed, JobNotStored, NotReady, VideoExpired
from server.intake import Submitted
from server.jobs import Job, JobStatus
from server.live import LiveJob
from server.services import START_RETRY_S, Services
from server.video import server_timing, to_video
from server.waiting import patiently

logger = logging.getLogger("reelserve.http")

ID_HEADER = "X-Video-Id"
"""Names the job behind an answer whose body is the file."""


class StreamBroken(Exception):
    """The job failed after its first bytes were sent: the connection ends without an end of the body."""

    def __init__(self, job: Job) -> None:
        super().__init__(f"job {job.id} is {job.status}")
        self.job = job


class BreakableStream(StreamingResponse):
    """A body that may stop short: the client sees a connection that broke, and the log a line, no traceback.

    What waits to be sent is never more than the video itself, so a slow reader costs no more than its file.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the body, as far as it goes."""
        try:
            await super().__call__(scope, receive, send)
        except StreamBroken as broken:
            job = broken.job
            logger.info("stream ended early", extra={"job_id": job.id, "reason": f"the job is {job.status}"})


async def completed(live: LiveJob, services: Services) -> Job:
    """The job that has ended, if it is completed: as its last move left it, which costs no query.

    Raises:
        JobFailed, BadRequest: it failed, and the code says why.
        NotReady: the server stopped before it had ended.
    """
    job = live.job
    if not job.status.final:  # its last move was cut off here, and may be on record all the same
        job = await services.store.get(job.id)
    if job.status is JobStatus.COMPLETED:
        return job
    assert job.error is not None
    if job.error.code == "server_restarted":
        raise NotReady(job.error.message, START_RETRY_S)
    kind = JobNotStored if job.error.code == "storage_failed" else JobFailed
    error: ApiError = kind(job.error.message, job.error.code)
    if job.error.code == "invalid_reference":
        error = BadRequest(job.error.message, code=job.error.code)
    raise error


def created(submitted: Submitted, services: Services) -> JSONResponse:
    """The job object of a job that was just queued."""
    video = to_video(submitted.live.job, submitted.live, services.dispatcher)
    status = services.settings.server.create_status
    return JSONResponse(video.model_dump(mode="json"), status, submitted.headers)


async def result(job: Job, request: Request, services: Services) -> Response:
    """The answer to the waiting request behind a completed job: its first output, in the form asked for.

    Raises:
        NotFound, VideoExpired, FileMissing: it was deleted, or its file removed, since it ended.
    """
    try:
        return await _as_asked(job, request, services)
    except FileMissing:  # the database knows why
        return await _as_asked(await services.store.get(job.id), request, services)


async def _as_asked(job: Job, request: Request, services: Services) -> Response:
    match job.resolved.response_format:
        case "video_bytes":
            return await file_response(job, 0, request, services)
        case "video_path":
            return await path_response(job, 0, services)
        case "url":
            url = request.url_for("get_content", video_id=job.id)
            return _json(job, VideoUrlResult(video_id=job.id, url=str(url)))
        case "b64_json":
            return await _base64_response(job, services)


async def path_response(job: Job, index: int, services: Services) -> JSONResponse:
    """Where output `index` lies, for clients that share the disk.

    Raises:
        VideoExpired, FileMissing: it is not there (any more).
    """
    path = _path(job, index, services)
    if not await asyncio.to_thread(path.exists):
        raise FileMissing(f"the file of video {job.id} is not there any more")
    return _json(job, VideoPathResult(video_id=job.id, video_path=str(path)))


async def file_response(job: Job, index: int, request: Request, services: Services) -> Response:
    """The file of output `index`: ranges, validators, and a name to save it by.

    Raises:
        VideoExpired: it was kept for its time.
        FileMissing, RangeNotSatisfiable: as `send` does.
    """
    kind = FORMATS[job.resolved.format]
    path = _path(job, index, services)
    download = _download(job, index, path, "video", kind.media_type, kind.suffix)
    return await send(download, request, _headers(job))


async def preview_response(
    job: Job, index: int, preview: Preview, request: Request, services: Services
) -> Response:
    """A picture of output `index`, made now if nobody asked for it before; headers tell its grid.

    Raises:
        VideoExpired: the video was kept for its time, and its pictures with it.
        FileMissing, PreviewFailed: as `Previews.path` does.
        RangeNotSatisfiable: as `send` does.
    """
    check_kept(job)
    path = await services.previews.path(job, index, preview)
    download = _download(job, index, path, preview.name, preview.media_type, preview.suffix)
    return await send(download, request, _headers(job) | _grid_headers(job, preview))


async def as_stream(submitted: Submitted, request: Request, services: Services) -> Response:
    """A fragmented MP4 while it is made. Nothing is answered before its first bytes, so a failure until
    then is an ordinary error.
    """
    live = submitted.live
    first = await patiently(live.fragments.get(), live, request, services)
    if first is None:
        await completed(live, services)
    headers = submitted.headers | {ID_HEADER: live.job.id}
    return BreakableStream(_pieces(submitted, first, services), media_type="video/mp4", headers=headers)


async def _pieces(submitted: Submitted, first: bytes | None, services: Services) -> AsyncIterator[bytes]:
    live, piece = submitted.live, first
    live.waiters += 1
    try:
        while piece is not None:
            yield piece
            piece = await live.fragments.get()
        if live.job.status is not JobStatus.COMPLETED:
            raise StreamBroken(live.job)
    finally:
        live.waiters -= 1
        if live.waiters == 0:
            services.dispatcher.abandon_soon(live.job.id)


def check_kept(job: Job) -> None:
    """Nothing, while the files of a completed job are kept.

    Raises:
        VideoExpired: their time is over, whether or not they have been deleted so far.
    """
    if job.expires_us is not None and job.expired(time.time_ns() // 1000):
        at = datetime.fromtimestamp(job.expires_us // 1_000_000, UTC)
        raise VideoExpired(f"video {job.id} expired at {at:%Y-%m-%dT%H:%M:%SZ}: its file is gone")


def _path(job: Job, index: int, services: Services) -> Path:
    check_kept(job)
    return services.artifacts.file(job.id, job.files[index].name)


def _download(job: Job, index: int, path: Path, what: str, media_type: str, suffix: str) -> Download:
    assert job.completed_us is not None
    number = "" if index == 0 else f"-{index}"
    return Download(
        path=path,
        tag=f"{job.id}-{what}-{index}",
        modified=job.completed_us // 1_000_000,
        media_type=media_type,
        filename=f"{job.id}{number}{suffix}",
    )


def _grid_headers(job: Job, preview: Preview) -> dict[str, str]:
    if preview.name != "spritesheet":
        return {}
    grid = preview.grid(job.resolved.params.num_frames)
    counts = {"Columns": grid.columns, "Rows": grid.rows, "Tiles": len(grid.frames)}
    return {f"X-Spritesheet-{name}": str(count) for name, count in counts.items()}


def _headers(job: Job) -> dict[str, str]:
    return {"Server-Timing": server_timing(job.timings), ID_HEADER: job.id}


def _json(job: Job, body: BaseModel) -> JSONResponse:
    return JSONResponse(body.model_dump(), headers=_headers(job))


async def _base64_response(job: Job, services: Services) -> JSONResponse:
    path = _path(job, 0, services)
    try:
        data = await asyncio.to_thread(path.read_bytes)
    except FileNotFoundError:
        raise FileMissing(f"the file of video {job.id} is not there any more") from None
    text = (await asyncio.to_thread(base64.b64encode, data)).decode("ascii")
    return _json(job, VideoBytesResult(video_id=job.id, video_bytes=text))
