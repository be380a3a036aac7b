"""From a request's body to a queued job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from anyio import to_thread
from fastapi import Request

from server.auth.middleware import owner_of
from server.errors import BadField
from server.idempotency import REPLAYED_HEADER, Claim, KeyTaken, key_of
from server.jobs import Job, new_job_id
from server.live import LiveJob
from server.params import Resolved, resolve
from server.parsing import ParsedRequest
from server.remix import check_source, remixed
from server.schemas import VideoGenerationRequest
from server.services import Services
from server.storing import with_references

IGNORED_HEADER = "X-Ignored-Fields"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was queued, now or by an earlier request, and the headers that its answer carries."""

    live: LiveJob
    headers: dict[str, str]
    repeated: bool = False
    """The request is a repetition, by its `Idempotency-Key`. The job may have ended."""


Make = Callable[[Claim | None], Awaitable[Submitted]]
"""Queues a request's job, and writes the claim to its key down with it."""


async def submit(request: Request, services: Services, *, waits: bool) -> Submitted:
    """Read, check and queue a request. Whatever is refused leaves nothing behind.

    Raises:
        ApiError: what is wrong with the request, or why it can't be taken now.
    """
    async with services.reader.read(request) as parsed:

        async def make(claim: Claim | None) -> Submitted:
            with parsed.as_sent():
                resolved = resolve(parsed.request, services.capabilities, services.settings)
            job = replace(_new_job(request, resolved), waits=waits)
            return await _queue(job, parsed, parsed.request, services, claim)

        return await _once(request, parsed, services, make)


async def remix(video_id: str, request: Request, services: Services) -> Submitted:
    """Queue a remix of a completed video, as `submit` does.

    Raises:
        NotFound, IllegalMove: the source is not there, or not completed. What `submit` raises.
    """
    source = check_source(await services.store.owned(video_id, owner_of(request)))
    async with services.reader.read(request) as parsed:

        async def make(claim: Claim | None) -> Submitted:
            with parsed.as_sent():
                whole, resolved = await remixed(parsed, source, services)
            job = replace(_new_job(request, resolved), remixed_from=source.id)
            return await _queue(job, parsed, whole, services, claim)

        return await _once(request, parsed, services, make)


def _new_job(request: Request, resolved: Resolved) -> Job:
    return Job(id=new_job_id(), created_us=time.time_ns() // 1000, resolved=resolved, owner=owner_of(request))


async def _once(request: Request, parsed: ParsedRequest, services: Services, make: Make) -> Submitted:
    """`make`, unless the request repeats an earlier one: then the job of that one."""
    key = key_of(request.headers)
    if key is None:
        return await make(None)
    claim = await to_thread.run_sync(
        services.keys.claim, key, request.scope["path"], parsed.request, owner_of(request)
    )
    while True:
        earlier = await _earlier(claim, services)
        if earlier is not None and not earlier.job.lost:
            return Submitted(earlier, {REPLAYED_HEADER: "true"}, repeated=True)
        try:
            return await make(claim if earlier is None else replace(claim, instead_of=earlier.job.id))
        except KeyTaken:  # by a request that came at the same time: its job is the answer
            continue


async def _earlier(claim: Claim, services: Services) -> LiveJob | None:
    """The job that the key means already."""
    job_id = await services.keys.find(claim)
    if job_id is None:
        return None
    # Taken before the row is read: a job that is not live then has its last state there.
    live = services.dispatcher.roster.live(job_id)
    job = await services.store.get(job_id)
    if live is None:
        live = LiveJob(job)
        live.end()
    elif live.cancelled is not None:
        await live.ended.wait()
    return live


async def _queue(
    job: Job,
    parsed: ParsedRequest,
    request: VideoGenerationRequest,
    services: Services,
    claim: Claim | None,
) -> Submitted:
    """Store the references of `request`, which `parsed` may say only in part, and queue the job."""
    services.dispatcher.check_room(job.owner)
    try:
        with parsed.as_sent():
            if job.resolved.stream and not job.waits:
                raise BadField("stream", "true is only allowed where the answer waits: POST /v1/videos/sync")
            folder = partial(services.uploads.create, job.id)
            resolved = await with_references(
                job.resolved, request, services.capabilities, services.references, folder
            )
        live = await services.dispatcher.submit(replace(job, resolved=resolved), claim)
    except BaseException:
        if services.dispatcher.roster.live(job.id) is None:  # queued already, it goes on without this request
            await asyncio.to_thread(services.uploads.remove, job.id)
        raise
    ignored = {IGNORED_HEADER: parsed.ignored_header} if parsed.ignored_fields else {}
    return Submitted(live, ignored)
