"""A sender of webhooks for jobs that end as a test says, and what its receivers make of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai

from server.database import Database
from server.jobs import JobError, JobStatus
from server.metrics import Metrics
from server.store import Store
from server.webhooks.outbox import Outbox
from server.webhooks.sender import Retries, WebhookSender
from server.webhooks.settings import WebhookSettings
from tests.databases import url_for
from tests.server.receiver import SECRET, Received
from tests.server.scripted import new_job

FAST = Retries(first_s=0.1, longest_s=0.4)


def webhook(url: str, secret: str = SECRET, **values: Any) -> WebhookSettings:
    return WebhookSettings.model_validate({"allow_private": True, "url": url, "secret": secret, **values})


def unwrap(received: Received, secret: str = SECRET) -> Any:
    """What the official Python client makes of it; raises if the signature is wrong."""
    with openai.OpenAI(api_key="none", webhook_secret=secret) as client:
        return client.webhooks.unwrap(received.body, received.headers)


class Sending:
    """A store whose ended jobs are told to receivers."""

    def __init__(self, folder: Path, *webhooks: WebhookSettings, retries: Retries = FAST) -> None:
        self.database = Database(url_for(folder))
        self.outbox = Outbox(self.database, webhooks)
        self.store = Store(self.database, endings=(self.outbox,))
        self.metrics = Metrics()
        self.sender = WebhookSender(webhooks, self.outbox, self.metrics, retries)

    async def end(self, status: JobStatus = JobStatus.COMPLETED) -> str:
        """A job that ends so; returns its id."""
        job = new_job()
        await self.store.add(job)
        await self.store.move(job.id, JobStatus.IN_PROGRESS)
        error = None if status is JobStatus.COMPLETED else JobError("out_of_memory", "too large")
        await self.store.move(job.id, status, completed_us=time.time_ns() // 1000, error=error)
        return job.id

    def count(self, outcome: str) -> float:
        value = self.metrics.registry.get_sample_value(
            "reelserve_webhook_attempts_total", {"outcome": outcome}
        )
        return 0.0 if value is None else value

    async def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def sending(
    folder: Path, *webhooks: WebhookSettings, retries: Retries = FAST
) -> AsyncIterator[Sending]:
    made = Sending(folder, *webhooks, retries=retries)
    await made.database.open()
    await made.sender.start()
    try:
        yield made
    finally:
        await made.sender.stop()
        await made.database.close()
