"""`Idempotency-Key`: for 24 hours, the same key and the same request mean the same job."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import BaseModel
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Select,
    String,
    Table,
    and_,
    delete,
    insert,
    or_,
    select,
    tuple_,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.datastructures import Headers

from server.database import METADATA, Database, uninterrupted
from server.echo import shown
from server.errors import BadField, IdempotencyKeyReused
from server.jobs import Job
from server.spool import Upload

HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"
"""On the answer to a repetition: `true`."""
KEPT_S = 24 * 3600
MAX_KEY = 255

_KEY = re.compile(rf"[\x20-\x7e]{{1,{MAX_KEY}}}")
_KEYS = Table(
    "idempotency_keys",
    METADATA,
    Column("owner", String(64), primary_key=True),
    Column("key", String(MAX_KEY), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("job_id", String(64), nullable=False),
    Column("created_us", BigInteger, nullable=False, index=True),
)
_IDENTITY = tuple_(_KEYS.c.owner, _KEYS.c.key)


class KeyTaken(Exception):
    """Another request with the same key was faster."""


def key_of(headers: Headers) -> str | None:
    """The key that a request carries.

    Raises:
        BadField: more than one, or not 1 to 255 printable ASCII characters.
    """
    sent = headers.getlist(HEADER)
    if not sent:
        return None
    if len(sent) > 1:
        raise BadField(HEADER, "is given more than once")
    if _KEY.fullmatch(sent[0]) is None:
        problem = f"{shown(sent[0])} is not allowed; it must be 1 to {MAX_KEY} printable ASCII characters"
        raise BadField(HEADER, problem)
    return sent[0]


def fingerprint(operation: str, request: BaseModel) -> str:
    """What tells requests apart: where they were sent, and every field that they give.

    Taken of the meaning, not of the bytes: the boundary of a form differs whenever it is sent.
    """
    given = request.model_dump(exclude_unset=True)
    text = json.dumps([operation, given], default=_plain, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: object) -> str:
    return value.sha256() if isinstance(value, Upload) else str(value)


@dataclass(frozen=True, slots=True)
class Claim:
    """A request's wish that its key shall mean the job that it makes. Written with that job."""

    owner: str
    """Who sent it: two clients may use the same key."""
    key: str
    fingerprint: str
    now_us: int
    instead_of: str | None = None
    """The job that the key meant so far, if that is no answer any more."""

    async def write(self, connection: AsyncConnection, job: Job) -> None:
        """Remember the key, and forget all that are too old.

        Raises:
            KeyTaken: it means another job already.
        """
        free = or_(_KEYS.c.created_us <= self.oldest_us, _KEYS.c.job_id == self.instead_of)
        await connection.execute(delete(_KEYS).where(self.same, free))
        await connection.execute(delete(_KEYS).where(_IDENTITY.in_(self._old())))
        row = {"owner": self.owner, "key": self.key, "fingerprint": self.fingerprint}
        try:
            await connection.execute(insert(_KEYS).values(**row, job_id=job.id, created_us=self.now_us))
        except IntegrityError:
            raise KeyTaken from None

    @property
    def same(self) -> ColumnElement[bool]:
        """The rows of this key, at most one."""
        return and_(_KEYS.c.owner == self.owner, _KEYS.c.key == self.key)

    def _old(self) -> Select[str, str]:
        """The keys to forget, but for those that another request forgets now: nobody waits for anybody."""
        old = select(_KEYS.c.owner, _KEYS.c.key).where(_KEYS.c.created_us <= self.oldest_us)
        return old.with_for_update(skip_locked=True)

    @property
    def oldest_us(self) -> int:
        """Keys of this time and before mean nothing any more."""
        return self.now_us - KEPT_S * 1_000_000


class IdempotencyKeys:
    """The keys of the last 24 hours. `now` gives nanoseconds since 1970."""

    def __init__(self, database: Database, now: Callable[[], int] = time.time_ns) -> None:
        self._database = database
        self._now = now

    def claim(self, key: str, operation: str, request: BaseModel, owner: str = "") -> Claim:
        """What to write down with the job of this request of `owner`, as in `Job.owner`."""
        return Claim(owner, key, fingerprint(operation, request), self._now() // 1000)

    @uninterrupted
    async def prune(self) -> None:
        """Forget the keys that mean nothing any more."""
        oldest_us = self._now() // 1000 - KEPT_S * 1_000_000
        async with self._database.writing() as connection:
            await connection.execute(delete(_KEYS).where(_KEYS.c.created_us <= oldest_us))

    async def find(self, claim: Claim) -> str | None:
        """The id of the job that the key means, or None if it is free.

        Raises:
            IdempotencyKeyReused: it came with another request.
        """
        query = select(_KEYS).where(claim.same, _KEYS.c.created_us > claim.oldest_us)
        async with self._database.reading() as connection:
            row = (await connection.execute(query)).mappings().first()
        if row is None:
            return None
        if row["fingerprint"] != claim.fingerprint:
            raise IdempotencyKeyReused(
                f"{HEADER}: {shown(claim.key)} came with another request in the last 24 hours; "
                "a new request needs a new key",
                param=HEADER,
            )
        return str(row["job_id"])
