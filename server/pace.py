"""How fast jobs are done here, and from it when to ask again."""

from __future__ import annotations

import time

from server.live import LiveJob

FIRST_GUESS_S = 5.0
"""How long a job takes, before any was measured."""
WEIGHT = 0.3
"""Of the newest job in the mean, so that the pace follows what is asked for."""
ASKS_PER_JOB = 8
"""How often a client should ask in the time that is left."""
SHORTEST_MS, LONGEST_MS = 200, 10_000


class Pace:
    """The measured pace of one server."""

    def __init__(self, slots: int = 1) -> None:
        """`slots`: how many jobs run side by side."""
        self._slots = slots
        self._mean_s: float | None = None

    @property
    def seconds_per_job(self) -> float:
        """A moving mean of the time that a job keeps its device."""
        return FIRST_GUESS_S if self._mean_s is None else self._mean_s

    @property
    def until_next_s(self) -> float:
        """How long it takes on average until another job begins, and its place in the queue is free."""
        return self.seconds_per_job / self._slots

    def note(self, seconds: float) -> None:
        """A job has kept its device for so long."""
        self._mean_s = seconds if self._mean_s is None else self._mean_s + WEIGHT * (seconds - self._mean_s)

    def poll_after_ms(self, live: LiveJob, position: int | None) -> int:
        """When a client should look at a job again, `position` jobs being before it in the queue."""
        wait = 1000 * self._left_s(live, position) / ASKS_PER_JOB
        return int(min(max(wait, SHORTEST_MS), LONGEST_MS))

    def _left_s(self, live: LiveJob, position: int | None) -> float:
        if position is not None:
            return (position + 1) * self.until_next_s
        percent, started_us = live.progress.percent, live.job.started_us
        if percent == 0 or started_us is None:
            return self.seconds_per_job
        return (time.time() - started_us / 1e6) * (100 - percent) / percent
