"""From a request's body to a queued job."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path

from fastapi import Request

from server.errors import BadField
from server.jobs import Job, new_job_id
from server.live import LiveJob
from server.params import Resolved, resolve
from server.parsing import ParsedRequest, parse_request
from server.remix import check_source, remixed
from server.schemas import Reference, VideoGenerationRequest
from server.services import Services

IGNORED_HEADER = "X-Ignored-Fields"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that is in the queue, and the headers that its answer carries."""

    live: LiveJob
    headers: dict[str, str]


async def submit(request: Request, services: Services, *, waits: bool) -> Submitted:
    """Read, check and queue a request. Whatever is refused leaves nothing behind.

    Raises:
        ApiError: what is wrong with the request, or why it can't be taken now.
    """
    parsed = await parse_request(request, services.settings.server)
    with parsed.as_sent():
        resolved = resolve(parsed.request, services.capabilities, services.settings)
    job = Job(id=new_job_id(), created_us=time.time_ns() // 1000, resolved=resolved, waits=waits)
    return await _queue(job, parsed, parsed.request, services)


async def remix(video_id: str, request: Request, services: Services) -> Submitted:
    """Queue a remix of a completed video, as `submit` does.

    Raises:
        NotFound, IllegalMove: the source is not there, or not completed. What `submit` raises.
    """
    source = check_source(await services.store.get(video_id))
    parsed = await parse_request(request, services.settings.server)
    with parsed.as_sent():
        whole, resolved = await remixed(parsed.request, source, services)
    job = Job(id=new_job_id(), created_us=time.time_ns() // 1000, resolved=resolved, remixed_from=source.id)
    return await _queue(job, parsed, whole, services)


async def _queue(
    job: Job, parsed: ParsedRequest, request: VideoGenerationRequest, services: Services
) -> Submitted:
    """Store the pictures of `request`, which `parsed` may say only in part, and queue the job."""
    services.dispatcher.check_room()
    try:
        with parsed.as_sent():
            if job.resolved.stream and not job.waits:
                raise BadField("stream", "true is only allowed where the answer waits: POST /v1/videos/sync")
            resolved = await _with_pictures(job.id, request, job.resolved, services)
        live = await services.dispatcher.submit(replace(job, resolved=resolved))
    except BaseException:
        await asyncio.to_thread(services.uploads.remove, job.id)
        raise
    ignored = {IGNORED_HEADER: parsed.ignored_header} if parsed.ignored_fields else {}
    return Submitted(live, ignored)


async def _with_pictures(
    job_id: str, request: VideoGenerationRequest, resolved: Resolved, services: Services
) -> Resolved:
    image = await _store(job_id, "input_reference", request.input_reference, services)
    last = await _store(job_id, "last_image", request.last_image, services)
    return replace(resolved, params=replace(resolved.params, image=image, last_image=last))


async def _store(job_id: str, field: str, reference: Reference | None, services: Services) -> Path | None:
    """The checked picture behind a reference, in the job's folder of uploads."""
    if reference is None:
        return None
    folder = await asyncio.to_thread(services.uploads.create, job_id)
    await services.references.store_image(reference, field, folder / f"{field}.png")
    return folder / f"{field}.png"
