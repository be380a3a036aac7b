"""The end of a job is written down, however long the database takes nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError

from server.errors import StoreUnavailable
from server.live import LiveJob
from server.storage import is_storage_error

T = TypeVar("T")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0

logger = logging.getLogger("reelserve.jobs")


async def persistently(write: Callable[[], Coroutine[Any, Any, T]], live: LiveJob) -> T:
    """The result of `write`, which is tried again while the database is full, read-only or out of reach.

    `live.refused` is set as long as that is so.

    Raises:
        Exception: what `write` raises for any other reason.
    """
    pause = FIRST_PAUSE_S
    try:
        while True:
            try:
                return await write()
            except (StoreUnavailable, OSError, DBAPIError) as error:
                if not isinstance(error, StoreUnavailable) and not is_storage_error(error):
                    raise
                told = {"job_id": live.job.id, "error": type(error.__cause__ or error).__name__}
                logger.error("the state of a job cannot be written, tried again", extra=told)
            live.refused.set()
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
    finally:
        live.refused.clear()
