"""From a request's body to a queued job."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

from fastapi import Request

from server.dispatcher import LiveJob
from server.errors import BadField
from server.jobs import Job, new_job_id
from server.params import Resolved, resolve
from server.parsing import parse_request
from server.references import store_image
from server.schemas import VideoGenerationRequest
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
    resolved = resolve(parsed.request, services.capabilities, services.settings)
    if resolved.stream and not waits:
        raise BadField("stream", "true is only allowed where the answer waits: POST /v1/videos/sync")
    job_id = new_job_id()
    try:
        resolved = await _with_pictures(job_id, parsed.request, resolved, services)
        job = Job(id=job_id, created_us=time.time_ns() // 1000, resolved=resolved, waits=waits)
        live = await services.dispatcher.submit(job)
    except BaseException:
        await asyncio.to_thread(services.uploads.remove, job_id)
        raise
    ignored = {IGNORED_HEADER: ", ".join(parsed.ignored_fields)} if parsed.ignored_fields else {}
    return Submitted(live, ignored)


async def _with_pictures(
    job_id: str, request: VideoGenerationRequest, resolved: Resolved, services: Services
) -> Resolved:
    given = {"image": request.input_reference, "last_image": request.last_image}
    fields = {"image": "input_reference", "last_image": "last_image"}
    paths = {}
    for name, reference in given.items():
        if reference is not None:
            folder = await asyncio.to_thread(services.uploads.create, job_id)
            paths[name] = folder / f"{name}.png"
            await store_image(reference, fields[name], paths[name], services.settings.images)
    return replace(resolved, params=replace(resolved.params, **paths))
