"""How far a running job is, in the words and numbers of its job object."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pipelines.base import Stage

SHARES: Mapping[Stage, float] = MappingProxyType({"prompt": 3, "image": 2, "denoise": 75, "decode": 19})
"""Percent that each stage is worth; the last one is kept for the finished file."""


class JobProgress:
    """Counts the stages of one job. `percent` never falls, and is at most 99."""

    def __init__(self) -> None:
        self._done: dict[Stage, float] = {}
        self.stage: Stage | None = None
        self.percent = 0

    def note(self, stage: Stage, step: int, steps: int) -> None:
        """`step` of `steps` of `stage` are done."""
        self.stage = stage
        self._done[stage] = step / steps
        # A stage that does not come (no image) is made good when a later one begins.
        done = sum(
            share * (1 if self._passed(name) else self._done.get(name, 0)) for name, share in SHARES.items()
        )
        self.percent = max(self.percent, int(done))

    def _passed(self, stage: Stage) -> bool:
        return stage in ("prompt", "image") and ("denoise" in self._done or "decode" in self._done)
