"""How far a running job is, in the words and numbers of its job object."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipelines.base import Stage
from server.engine.base import Progress

SHARES: Mapping[Stage, float] = MappingProxyType({"prompt": 3, "image": 2, "denoise": 75, "decode": 19})
"""Percent that each stage is worth; the last one is kept for the finished file."""


class JobProgress:
    """Counts the stages of one job. `percent` never falls, and is at most 99."""

    def __init__(self, least: int = 0) -> None:
        """`least`: the percent that an earlier run of the job had reached."""
        self._done: dict[Stage, float] = {}
        self.last: Progress | None = None
        """What the worker said last."""
        self.percent = least

    @property
    def stage(self) -> Stage | None:
        return None if self.last is None else self.last.stage

    def note(self, event: Progress) -> None:
        """Take in what the worker says."""
        self.last = event
        self._done[event.stage] = event.cost
        done = sum(share * self._share_done(stage) for stage, share in SHARES.items())
        self.percent = max(self.percent, int(done))

    def _share_done(self, stage: Stage) -> float:
        # A stage that does not come (no image) is made good when a later one begins.
        if stage in ("prompt", "image") and self._done.keys() & {"denoise", "decode"}:
            return 1
        return self._done.get(stage, 0)
