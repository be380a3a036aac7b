"""Deliveries to the operator's receivers: each in its own time, until it is taken or 72 hours are over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

import httpx

from server.addresses import AddressRefused
from server.metrics import Metrics
from server.outbound import checked_client
from server.webhooks.outbox import Delivery, Outbox
from server.webhooks.settings import WebhookSettings
from server.webhooks.signing import signed_headers

logger = logging.getLogger("reelserve.webhooks")

PARALLEL = 4
"""Deliveries to one receiver side by side."""
LOOK_AGAIN_S = 60.0
"""The longest pause: a server that shares the database may have left something behind."""
LEASE_MARGIN_S = 5.0
"""What an attempt may take beyond its time-out."""
TROUBLE_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True)
class Retries:
    """When a delivery that was not taken is tried again."""

    first_s: float = 2
    longest_s: float = 3600
    total_s: float = 72 * 3600
    """From the event on; what is not taken by then is given up."""
    timeout_s: float = 10
    """Of one attempt, from the name's resolution to the status line."""

    def pause_s(self, attempts: int) -> float:
        """After `attempts` failures: twice as long each time, and a quarter more or less."""
        pause = min(self.first_s * 2.0 ** min(attempts - 1, 60), self.longest_s)
        return pause * random.uniform(0.75, 1.25)  # noqa: S311 - spreads load, hides nothing


class WebhookSender:
    """Sends what is in the outbox. A task for each receiver, so that none waits for another one."""

    def __init__(
        self,
        webhooks: Sequence[WebhookSettings],
        outbox: Outbox,
        metrics: Metrics,
        retries: Retries | None = None,
    ) -> None:
        self._outbox = outbox
        self._receivers = [_Receiver(webhook, outbox, metrics, retries or Retries()) for webhook in webhooks]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Go on with what an earlier server left, and send what comes."""
        dropped = await self._outbox.keep_only([receiver.url for receiver in self._receivers])
        if dropped:
            logger.warning("dropped events of webhooks no longer configured", extra={"count": dropped})
        self._tasks = [asyncio.create_task(receiver.run()) for receiver in self._receivers]

    async def stop(self) -> None:
        """Stop sending; an attempt that is cut off is repeated by the next server."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Receiver:
    """One configured webhook."""

    def __init__(self, webhook: WebhookSettings, outbox: Outbox, metrics: Metrics, retries: Retries) -> None:
        self.url = webhook.url
        self._webhook = webhook
        self._outbox = outbox
        self._metrics = metrics
        self._retries = retries
        self._host = urlsplit(webhook.url).hostname
        """What the log says: paths and queries of such URLs are often secret."""

    async def run(self) -> None:
        """Send what is due, sleep until more is, for ever."""
        client = checked_client(allow_private=self._webhook.allow_private, timeout_s=self._retries.timeout_s)
        async with client:
            while True:
                changed = self._outbox.changed.next()
                pause = await self._round(client)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await changed.wait()

    async def _round(self, client: httpx.AsyncClient) -> float:
        """Send what is due; returns the seconds until something is due again."""
        try:
            due = await self._outbox.due(self.url, _now_us(), PARALLEL)
            await asyncio.gather(*(self._deliver(client, delivery) for delivery in due))
            following = await self._outbox.next_us(self.url)
        except Exception:  # such as a full disk: nothing is lost, and the next round may succeed
            logger.exception("a round of webhook deliveries failed", extra={"host": self._host})
            return TROUBLE_PAUSE_S
        if following is None:
            return LOOK_AGAIN_S
        return min(max((following - _now_us()) / 1e6, 0), LOOK_AGAIN_S)

    async def _deliver(self, client: httpx.AsyncClient, delivery: Delivery) -> None:
        lease_s = self._retries.timeout_s + LEASE_MARGIN_S
        if not await self._outbox.lease(delivery, _later_us(lease_s)):
            return
        failure = await self._attempt(client, delivery)
        if failure is None:
            await self._outbox.remove(delivery)
            self._metrics.webhooks.labels("delivered").inc()
        else:
            await self._retry(delivery, failure)

    async def _attempt(self, client: httpx.AsyncClient, delivery: Delivery) -> str | None:
        """Send it once; returns why it was not taken. Nothing of the answer is read but its head."""
        secret = self._webhook.secret.get_secret_value()
        headers = {"content-type": "application/json", "user-agent": f"reelserve/{version('reelserve')}"}
        headers |= signed_headers(secret, delivery.event_id, delivery.body, datetime.now(UTC))
        sending = client.stream("POST", self.url, content=delivery.body.encode(), headers=headers)
        try:
            async with asyncio.timeout(self._retries.timeout_s), sending as answer:
                return None if answer.is_success else f"status {answer.status_code}"
        except AddressRefused as error:
            return str(error)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:  # TimeoutError is an OSError
            return type(error).__name__

    async def _retry(self, delivery: Delivery, failure: str) -> None:
        attempts = delivery.attempts + 1
        pause = self._retries.pause_s(attempts)
        if _later_us(pause) - delivery.created_us > self._retries.total_s * 1e6:
            await self._outbox.remove(delivery)
            self._metrics.webhooks.labels("expired").inc()
            logger.error("webhook event given up", extra=self._said(delivery, failure))
            return
        await self._outbox.postpone(delivery, _later_us(pause))
        self._metrics.webhooks.labels("failed").inc()
        told = self._said(delivery, failure) | {"attempt": attempts, "seconds": round(pause)}
        logger.warning("webhook attempt failed, tried again later", extra=told)

    def _said(self, delivery: Delivery, failure: str) -> dict[str, Any]:
        return {"host": self._host, "event_id": delivery.event_id, "reason": failure}


def _now_us() -> int:
    return time.time_ns() // 1000


def _later_us(seconds: float) -> int:
    return _now_us() + round(seconds * 1e6)
