"""Jobs in a database: SQLAlchemy's async core, SQLite by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from pydantic import TypeAdapter
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    CursorResult,
    Index,
    Integer,
    RowMapping,
    String,
    Table,
    Text,
    bindparam,
    delete,
    insert,
    or_,
    select,
    text,
    tuple_,
    update,
)

from server.database import METADATA, Beside, Database, Ending, uninterrupted
from server.echo import shown
from server.errors import IllegalMove, NotFound
from server.jobs import TRANSITIONS, Job, JobError, JobStatus, StoredFile
from server.params import Resolved

_JOBS = Table(
    "jobs",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("created_us", BigInteger, nullable=False, index=True),
    Column("status", String(16), nullable=False, index=True),
    Column("resolved", Text, nullable=False),
    Column("owner", String(64), nullable=False, server_default=text("''")),
    Column("waits", Boolean, nullable=False),
    Column("remixed_from", String(64)),
    Column("progress", Integer, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("started_us", BigInteger),
    Column("completed_us", BigInteger),
    Column("expires_us", BigInteger, index=True),
    Column("error", JSON(none_as_null=True)),
    Column("files", JSON, nullable=False),
    Column("timings", JSON, nullable=False),
    Index("ix_jobs_owner", "owner", "created_us", "id"),  # a page is read from it in order
)
_BY_ID = select(_JOBS).where(_JOBS.c.id == bindparam("job_id"))
_RESOLVED = TypeAdapter(Resolved)
_IDS_AT_ONCE = 500
"""Databases bound the parameters of a statement."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """What decides how long a job's files stay. Times in microseconds since 1970."""

    id: str
    status: JobStatus
    completed_us: int | None
    expires_us: int | None

    def keeps_files(self, now_us: int) -> bool:
        """Whether its finished files may be there, or those that it is making."""
        if self.status is JobStatus.COMPLETED:
            return self.expires_us is None or self.expires_us > now_us
        return not self.status.final


class Store:
    """All jobs. Each method is one transaction."""

    def __init__(self, database: Database, endings: Sequence[Ending] = ()) -> None:
        self._database = database
        self._endings = endings

    @uninterrupted
    async def add(self, job: Job, beside: Beside | None = None) -> None:
        """Write a new job down."""
        async with self._database.writing() as connection:
            if beside is not None:
                await beside.write(connection, job)
            await connection.execute(insert(_JOBS).values(_row(job)))

    async def get(self, job_id: str) -> Job:
        """The job as it is now.

        Raises:
            NotFound: there is none.
        """
        async with self._database.reading() as connection:
            row = (await connection.execute(_BY_ID, {"job_id": _possible(job_id)})).mappings().first()
        if row is None:
            raise _unknown(job_id)
        return _job(row)

    async def owned(self, job_id: str, owner: str) -> Job:
        """The job as it is now, if it is this owner's.

        Raises:
            NotFound: there is none, or it is another's: nobody learns which.
        """
        job = await self.get(job_id)
        if job.owner != owner:
            raise _unknown(job_id)
        return job

    async def page(
        self, owner: str, *, after: str | None = None, limit: int = 20, order: Literal["asc", "desc"] = "desc"
    ) -> tuple[list[Job], bool]:
        """Up to `limit` jobs of one owner by time of creation, following the job `after`, and whether more
        follow.

        Raises:
            NotFound: the owner has no job `after`.
        """
        key = tuple_(_JOBS.c.created_us, _JOBS.c.id)
        query = select(_JOBS).where(_JOBS.c.owner == owner)
        if after is not None:
            last = await self.owned(after, owner)
            place = (last.created_us, last.id)
            query = query.where(key > place if order == "asc" else key < place)
        columns = (_JOBS.c.created_us, _JOBS.c.id)
        query = query.order_by(*(column.asc() if order == "asc" else column.desc() for column in columns))
        async with self._database.reading() as connection:
            rows = (await connection.execute(query.limit(limit + 1))).mappings().all()
        return [_job(row) for row in rows[:limit]], len(rows) > limit

    async def ids(self) -> set[str]:
        """The ids of all jobs."""
        async with self._database.reading() as connection:
            return set((await connection.execute(select(_JOBS.c.id))).scalars())

    async def unfinished(self) -> list[Job]:
        """Every queued and running job, in the order of creation."""
        states = [status for status in JobStatus if not status.final]
        query = select(_JOBS).where(_JOBS.c.status.in_(states)).order_by(_JOBS.c.created_us, _JOBS.c.id)
        async with self._database.reading() as connection:
            return [_job(row) for row in (await connection.execute(query)).mappings()]

    @uninterrupted
    async def move(self, job_id: str, status: JobStatus, *, again: bool = False, **changes: Any) -> Job:
        """Change the status, and with it other fields of `Job`; return the job as it is then.

        Args:
            again: an earlier attempt may have done it, and only its answer was lost; then all is well.

        Raises:
            NotFound: there is no such job.
            IllegalMove: its status does not lead there.
        """
        sources = [source for source, targets in TRANSITIONS.items() if status in targets]
        async with self._database.writing() as connection:
            # The status is part of the condition, so of two movers at once only one finds its row.
            moved = update(_JOBS).where(_is(job_id), _JOBS.c.status.in_(sources))
            result = await connection.execute(moved.values(_columns({"status": status, **changes})))
            row = (await connection.execute(_BY_ID, {"job_id": _possible(job_id)})).mappings().first()
            if row is None:
                raise _unknown(job_id)
            made = cast(CursorResult[Any], result).rowcount == 1
            if not made and not (again and row["status"] == status):
                raise IllegalMove(f"video {job_id} is {row['status']} and cannot become {status}")
            job = _job(row)
            endings = self._endings if status.final else ()
            for ending in endings if made else ():
                await ending.write(connection, job)
        for ending in endings:
            ending.written()
        return job

    async def lifetimes(self, job_ids: Sequence[str]) -> list[Lifetime]:
        """How long the files of these jobs stay; ids of no job are left out."""
        columns = [_JOBS.c[name] for name in Lifetime.__dataclass_fields__]
        found: list[Lifetime] = []
        async with self._database.reading() as connection:
            for first in range(0, len(job_ids), _IDS_AT_ONCE):
                some = _JOBS.c.id.in_(job_ids[first : first + _IDS_AT_ONCE])
                rows = (await connection.execute(select(*columns).where(some))).mappings()
                found += [Lifetime(**{**row, "status": JobStatus(row["status"])}) for row in rows]
        return found

    @uninterrupted
    async def expire(self, job_id: str, now_us: int) -> None:
        """Let the files of a job, if there is one, go now at the latest."""
        later = or_(_JOBS.c.expires_us.is_(None), _JOBS.c.expires_us > now_us)
        async with self._database.writing() as connection:
            await connection.execute(update(_JOBS).where(_is(job_id), later).values(expires_us=now_us))

    @uninterrupted
    async def forget(self, ended_us: int, now_us: int, limit: int) -> list[str]:
        """Forget up to `limit` jobs that ended by `ended_us` and have no files any more; return their ids."""
        some = (
            select(_JOBS.c.id)
            .where(_JOBS.c.created_us <= ended_us, _JOBS.c.completed_us <= ended_us, _fileless(now_us))
            .order_by(_JOBS.c.created_us)
            .limit(limit)
        )
        async with self._database.writing() as connection:
            gone = await connection.execute(delete(_JOBS).where(_JOBS.c.id.in_(some)).returning(_JOBS.c.id))
            return list(gone.scalars())

    async def first_end_us(self, now_us: int) -> int | None:
        """When the job ended that is to be forgotten first, of those that have no files any more."""
        query = select(_JOBS.c.completed_us).where(_JOBS.c.completed_us.is_not(None), _fileless(now_us))
        async with self._database.reading() as connection:
            first = await connection.execute(query.order_by(_JOBS.c.created_us).limit(1))
            return cast(int | None, first.scalar())

    @uninterrupted
    async def delete(self, job_id: str) -> None:
        """Forget a job.

        Raises:
            NotFound: there is none.
        """
        async with self._database.writing() as connection:
            result = await connection.execute(delete(_JOBS).where(_is(job_id)))
        if cast(CursorResult[Any], result).rowcount == 0:
            raise _unknown(job_id)


def _is(job_id: str) -> ColumnElement[bool]:
    return _JOBS.c.id == _possible(job_id)


def _possible(job_id: str) -> str:
    """The id, or the empty one, which no job has: PostgreSQL could not be asked for one with a NUL in it."""
    return job_id if job_id.isascii() and job_id.isprintable() else ""


def _fileless(now_us: int) -> ColumnElement[bool]:
    return or_(_JOBS.c.status == JobStatus.FAILED, _JOBS.c.expires_us <= now_us)


def _unknown(job_id: str) -> NotFound:
    return NotFound(f"there is no video {shown(job_id)}", param="video_id", code="video_not_found")


def _row(job: Job) -> dict[str, Any]:
    return _columns({name: getattr(job, name) for name in Job.__dataclass_fields__})


def _columns(values: Mapping[str, Any]) -> dict[str, Any]:
    row = dict(values)
    if "resolved" in row:
        row["resolved"] = _RESOLVED.dump_json(row["resolved"]).decode()
    if row.get("error") is not None:
        row["error"] = asdict(row["error"])
    if "files" in row:
        row["files"] = [asdict(file) for file in row["files"]]
    if "timings" in row:
        row["timings"] = dict(row["timings"])
    return row


def _job(row: RowMapping) -> Job:
    error, files = row["error"], row["files"]
    return Job(
        **{
            **row,
            "status": JobStatus(row["status"]),
            "resolved": _RESOLVED.validate_json(row["resolved"]),
            "error": None if error is None else JobError(**error),
            "files": tuple(StoredFile(**file) for file in files),
        }
    )
