"""When a worker that has ended is started again, and when it stays down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from server.engine.base import StartFailed
from server.sections import EngineSettings

HEALTHY_S = 60.0
"""A worker that was ready for so long has proved that it works, even if it was given nothing to do."""


EndReason = Literal["crashed", "silent", "device_lost", "cancel_ignored", "start_failed"]
"""Why a life ended, in a word for the metrics. `crashed` is by itself; the server ends the others."""


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a worker process."""

    how: str
    """Its end: `was killed by SIGSEGV`, `ended with status 1`."""
    ready_s: float | None
    """Seconds from ready to its end; None if it never was."""
    worked: bool = False
    """It finished a job, or the server ended it for a reason of its own."""
    refusal: StartFailed | None = None
    """What it said itself, if it could not serve."""
    killed: EndReason | None = None
    """Why the server ended it, if it did."""

    @property
    def reason(self) -> EndReason:
        """Of its end."""
        return "start_failed" if self.ready_s is None else self.killed or "crashed"

    @property
    def proved(self) -> bool:
        return self.worked or (self.ready_s is not None and self.ready_s >= HEALTHY_S)


class Restarts:
    """The rule for one worker."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        self._was_ready = False
        self._failures = 0
        """Starts in a row that came to nothing."""
        self._idle_lives = 0
        """Lives in a row that proved nothing."""

    def pause(self, life: Life) -> float | None:
        """Seconds to wait before the next start, after this life; None: none is worth it (`verdict`).

        A start is not worth trying again if the worker says that it cannot serve what is configured, unless
        it has served before, or after `max_start_failures` in a row. The pause doubles with each life in
        which no job was finished: the cause may lie in what surrounds the worker.
        """
        self._failures = 0 if life.ready_s is not None else self._failures + 1
        self._idle_lives = 0 if life.proved else self._idle_lives + 1
        self._was_ready = self._was_ready or life.ready_s is not None
        if life.refusal is not None and not (life.refusal.transient or self._was_ready):
            return None
        if self._failures >= self._settings.max_start_failures:
            return None
        doublings = max(0, self._idle_lives - 1)
        # Not a power that grows without end: a worker may fail for weeks.
        delay = self._settings.restart_delay_s * 2.0 ** min(doublings, 32)
        return min(delay, self._settings.max_restart_delay_s)

    def verdict(self, life: Life) -> str:
        """Why the worker stays down, after its last life."""
        said = f"the worker {life.how}" if life.refusal is None else life.refusal.message
        return said if self._failures < 2 else f"{self._failures} starts failed in a row; the last: {said}"
