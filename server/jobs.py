"""A job: what was asked, what became of it, and the moves between its states."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from server.engine.base import JobErrorCode
from server.params import Resolved


class JobStatus(StrEnum):
    """OpenAI's four words, and no other: its clients stop polling on any other."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"

    @property
    def final(self) -> bool:
        return not TRANSITIONS[self]


TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = MappingProxyType(
    {
        JobStatus.QUEUED: frozenset({JobStatus.IN_PROGRESS, JobStatus.FAILED}),
        # Back to the queue when the server ends before the job does.
        JobStatus.IN_PROGRESS: frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.QUEUED}),
        JobStatus.COMPLETED: frozenset(),
        JobStatus.FAILED: frozenset(),
    }
)
"""Every legal move; the store makes no other."""


@dataclass(frozen=True, slots=True)
class JobError:
    code: JobErrorCode
    message: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A finished file of a job, by its name in the job's folder."""

    name: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Job:
    """One request for a video. Times in microseconds since 1970, so that lists have a stable order."""

    id: str
    created_us: int
    resolved: Resolved
    owner: str = ""
    """Name of the API key that it was made with; empty where there are none."""
    waits: bool = False
    """A synchronous request: without its client, nobody wants the result."""
    remixed_from: str | None = None
    """The job whose parameters this one took over."""
    status: JobStatus = JobStatus.QUEUED
    progress: int = 0
    """Percent, as it was when the job ended, or was put back into the queue."""
    attempts: int = 0
    """How often a worker has begun it."""
    started_us: int | None = None
    completed_us: int | None = None
    expires_us: int | None = None
    """When the files of a completed job go, or have gone; None if they stay."""
    error: JobError | None = None
    files: tuple[StoredFile, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds by name, as in `Server-Timing`."""

    def expired(self, now_us: int) -> bool:
        """Whether its files have gone, or go at this moment."""
        return self.expires_us is not None and self.expires_us <= now_us

    @property
    def lost(self) -> bool:
        """It ended because nobody waited any more: asked for again, it is made again."""
        return self.waits and self.error is not None and self.error.code in ("cancelled", "server_restarted")


def new_job_id() -> str:
    """A fresh id: `video_` and 32 hexadecimal digits, not to be guessed."""
    return f"video_{secrets.token_hex(16)}"
