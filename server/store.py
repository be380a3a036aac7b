"""Jobs in a database: SQLAlchemy's async core, SQLite by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, cast

from pydantic import TypeAdapter
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    CursorResult,
    Integer,
    RowMapping,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
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
    Column("owner", String(64), nullable=False, index=True),
    Column("waits", Boolean, nullable=False),
    Column("remixed_from", String(64)),
    Column("progress", Integer, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("started_us", BigInteger),
    Column("completed_us", BigInteger),
    Column("expires_us", BigInteger, index=True),
    Column("error", JSON(none_as_null=True)),
    Column("files", JSON, nullable=False),
    Column("timings", JSON, nullable=False),
)
_RESOLVED = TypeAdapter(Resolved)


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
            row = (await connection.execute(select(_JOBS).where(_JOBS.c.id == job_id))).mappings().first()
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
    async def move(self, job_id: str, status: JobStatus, **changes: Any) -> Job:
        """Change the status, and with it other fields of `Job`; return the job as it is then.

        Raises:
            NotFound: there is no such job.
            IllegalMove: its status does not lead there.
        """
        sources = [source for source, targets in TRANSITIONS.items() if status in targets]
        async with self._database.writing() as connection:
            # The status is part of the condition, so of two movers at once only one finds its row.
            moved = update(_JOBS).where(_JOBS.c.id == job_id, _JOBS.c.status.in_(sources))
            result = await connection.execute(moved.values(_columns({"status": status, **changes})))
            row = (await connection.execute(select(_JOBS).where(_JOBS.c.id == job_id))).mappings().first()
            if row is None:
                raise _unknown(job_id)
            if cast(CursorResult[Any], result).rowcount == 0:
                raise IllegalMove(f"video {job_id} is {row['status']} and cannot become {status}")
            job = _job(row)
            endings = self._endings if status.final else ()
            for ending in endings:
                await ending.write(connection, job)
        for ending in endings:
            ending.written()
        return job

    @uninterrupted
    async def delete(self, job_id: str) -> None:
        """Forget a job.

        Raises:
            NotFound: there is none.
        """
        async with self._database.writing() as connection:
            result = await connection.execute(delete(_JOBS).where(_JOBS.c.id == job_id))
        if cast(CursorResult[Any], result).rowcount == 0:
            raise _unknown(job_id)


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
