"""Waiting for a job on behalf of a client that may go away or run out of time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from server.dispatcher import CANCELLED
from server.errors import JobFailed
from server.jobs import JobError
from server.live import LiveJob
from server.services import Services

T = TypeVar("T")


async def patiently(work: Coroutine[Any, Any, T], live: LiveJob, request: Request, services: Services) -> T:
    """The result of `work`, which comes at the latest when the job ends.

    The job is stopped when `server.sync_timeout_s` is over, or the last client that waits for it goes away.

    Raises:
        JobFailed: this client went away, and another one waits; nobody will see it.
    """
    wanted, gone = asyncio.create_task(work), asyncio.create_task(_disconnected(request))
    timeout = services.settings.server.sync_timeout_s
    live.waiters += 1
    try:
        await asyncio.wait({wanted, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            if gone.done() and live.waiters > 1:
                raise JobFailed(CANCELLED.message, CANCELLED.code)
            error = CANCELLED if gone.done() else JobError("timeout", f"not finished within {timeout:g} s")
            await services.dispatcher.abandon(live.job.id, error)
        return await wanted
    except asyncio.CancelledError:
        if live.waiters == 1:
            services.dispatcher.abandon_soon(live.job.id)
        raise
    finally:
        live.waiters -= 1
        gone.cancel()
        wanted.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
