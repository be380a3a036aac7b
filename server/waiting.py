"""Waiting for a job on behalf of a client that may go away or run out of time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from server.dispatcher import CANCELLED
from server.jobs import JobError
from server.live import LiveJob
from server.services import Services

T = TypeVar("T")


async def patiently(work: Coroutine[Any, Any, T], live: LiveJob, request: Request, services: Services) -> T:
    """The result of `work`, which comes at the latest when the job ends.

    The job is stopped when the client goes away or `server.sync_timeout_s` is over.
    """
    wanted, gone = asyncio.create_task(work), asyncio.create_task(_disconnected(request))
    timeout = services.settings.server.sync_timeout_s
    try:
        await asyncio.wait({wanted, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            error = CANCELLED if gone.done() else JobError("timeout", f"not finished within {timeout:g} s")
            await services.dispatcher.abandon(live.job.id, error)
        return await wanted
    except asyncio.CancelledError:
        wanted.cancel()
        services.dispatcher.abandon_soon(live.job.id)
        raise
    finally:
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
