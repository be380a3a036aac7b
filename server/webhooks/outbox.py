"""Events to be delivered, in the job database: none is lost between a job's end and its delivery."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Column,
    CursorResult,
    Integer,
    String,
    Table,
    Text,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from server.database import METADATA, Database, uninterrupted
from server.jobs import Job, JobStatus
from server.live import Signal
from server.webhooks.settings import MAX_URL, WebhookEvent, WebhookSettings

_DELIVERIES = Table(
    "webhook_deliveries",
    METADATA,
    Column("event_id", String(64), primary_key=True),
    Column("url", String(MAX_URL), primary_key=True),
    Column("body", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_us", BigInteger, nullable=False, index=True),
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event on its way to one receiver. Times in microseconds since 1970."""

    event_id: str
    url: str
    body: str
    created_us: int
    attempts: int
    next_us: int


class Outbox:
    """The deliveries that are not done. Written with a job's last move, as a `server.database.Ending`."""

    def __init__(self, database: Database, webhooks: Sequence[WebhookSettings]) -> None:
        self._database = database
        self._webhooks = webhooks
        self.changed = Signal()
        """Fired when there are new ones."""

    async def write(self, connection: AsyncConnection, job: Job) -> None:
        """Address the job's event to all who want it."""
        kind = _event_of(job)
        event_id, created_us = f"evt_{secrets.token_hex(16)}", job.completed_us or job.created_us
        body = _body(event_id, kind, job.id, created_us)
        rows = [
            Delivery(event_id, webhook.url, body, created_us, attempts=0, next_us=created_us)
            for webhook in self._webhooks
            if kind in webhook.events
        ]
        if rows:
            await connection.execute(insert(_DELIVERIES), [_row(row) for row in rows])

    def written(self) -> None:
        self.changed.fire()

    async def due(self, url: str, now_us: int, limit: int) -> list[Delivery]:
        """Up to `limit` deliveries whose time has come, the longest waiting first."""
        ready = and_(_DELIVERIES.c.url == url, _DELIVERIES.c.next_us <= now_us)
        query = select(_DELIVERIES).where(ready).order_by(_DELIVERIES.c.next_us).limit(limit)
        async with self._database.reading() as connection:
            return [Delivery(**row) for row in (await connection.execute(query)).mappings()]

    async def next_us(self, url: str) -> int | None:
        """When the next delivery to this receiver is due; None if there is none."""
        query = select(func.min(_DELIVERIES.c.next_us)).where(_DELIVERIES.c.url == url)
        async with self._database.reading() as connection:
            found: int | None = (await connection.execute(query)).scalar()
        return found

    async def lease(self, delivery: Delivery, until_us: int) -> bool:
        """Take a delivery for one attempt; False if another server of this database has it.

        A server that dies in the attempt leaves it due again at `until_us`.
        """
        taken = update(_DELIVERIES).where(
            _is(delivery),
            # Of two who saw the same row, one changes it first.
            _DELIVERIES.c.attempts == delivery.attempts,
        )
        return await self._execute(taken.values(attempts=delivery.attempts + 1, next_us=until_us)) == 1

    async def postpone(self, delivery: Delivery, next_us: int) -> None:
        """Try again at `next_us`."""
        await self._execute(update(_DELIVERIES).where(_is(delivery)).values(next_us=next_us))

    async def remove(self, delivery: Delivery) -> None:
        """It was taken, or is given up."""
        await self._execute(delete(_DELIVERIES).where(_is(delivery)))

    async def keep_only(self, urls: Collection[str]) -> int:
        """Drop what was meant for receivers that are not configured any more; returns how many."""
        return await self._execute(delete(_DELIVERIES).where(_DELIVERIES.c.url.not_in(urls)))

    @uninterrupted
    async def _execute(self, statement: Any) -> int:
        async with self._database.writing() as connection:
            return cast(CursorResult[Any], await connection.execute(statement)).rowcount


def _event_of(job: Job) -> WebhookEvent:
    return "video.completed" if job.status is JobStatus.COMPLETED else "video.failed"


def _body(event_id: str, kind: WebhookEvent, video_id: str, created_us: int) -> str:
    event = {
        "id": event_id,
        "object": "event",
        "created_at": created_us // 1_000_000,
        "type": kind,
        "data": {"id": video_id},
    }
    return json.dumps(event)


def _is(delivery: Delivery) -> Any:
    return and_(_DELIVERIES.c.event_id == delivery.event_id, _DELIVERIES.c.url == delivery.url)


def _row(delivery: Delivery) -> dict[str, Any]:
    return {name: getattr(delivery, name) for name in Delivery.__dataclass_fields__}
