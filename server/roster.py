"""The unfinished jobs of this process, and who comes next."""

from __future__ import annotations

from server.jobs import Job
from server.live import LiveJob, Signal
from server.queue import JobQueue


class Roster:
    """Every job that is queued or running here."""

    def __init__(self) -> None:
        self.queue = JobQueue()
        self.changes = Signal()
        """Fired whenever a job here has changed, its place in the queue included."""
        self._live: dict[str, LiveJob] = {}

    def add(self, job: Job) -> LiveJob:
        """Take a job up; it does not wait in the queue yet."""
        live = self._live[job.id] = LiveJob(job)
        return live

    def forget(self, live: LiveJob) -> None:
        """The job is finished, or not this process's any more: let go of all who wait for it."""
        self.queue.remove(live.job.id)
        self._live.pop(live.job.id, None)
        live.end()
        self.changes.fire()

    def live(self, job_id: str) -> LiveJob | None:
        """The job, if it is queued or running."""
        return self._live.get(job_id)

    def lives(self) -> dict[str, LiveJob]:
        """All jobs that are queued or running now, by id."""
        return dict(self._live)

    def running(self) -> list[LiveJob]:
        """The jobs that have been handed out."""
        return [live for job_id, live in self._live.items() if job_id not in self.queue]

    def unfinished_of(self, owner: str) -> int:
        """How many jobs of this owner wait or run."""
        return sum(live.job.owner == owner for live in self._live.values())

    def next(self) -> LiveJob:
        """The job whose turn it is, which does not wait any more.

        Raises:
            IndexError: none waits.
        """
        return self._live[self.queue.pop()]
