"""What a server and its workers hold over time: memory and open files of each process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median

import psutil

EVERY_S = 0.5
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Sample:
    rss: int
    """Bytes."""
    fds: int


class Watch:
    """Samples by process: `server`, and the workers, which are one of them together."""

    def __init__(self, pid: int) -> None:
        self._server = psutil.Process(pid)
        self.samples: dict[str, list[Sample]] = {"server": [], "workers": []}

    def look(self) -> None:
        """Take a sample of each."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.samples["server"].append(_sample([self._server]))
            self.samples["workers"].append(_sample(self.workers()))

    def workers(self) -> list[psutil.Process]:
        """The processes that own a device."""
        return [child for child in self._server.children() if "server.engine.worker" in child.cmdline()]

    def growth(self, who: str) -> dict[str, float]:
        """Medians of the second and of the last quarter of the time, and how they differ.

        The first quarter is left out: allocators and caches fill up in it.
        """
        samples = self.samples[who]
        quarter = max(1, len(samples) // 4)
        second, last = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
        rss = [median(sample.rss for sample in part) / MIB for part in (second, last)]
        fds = [median(sample.fds for sample in part) for part in (second, last)]
        return {
            "rss_mib": round(rss[1], 1),
            "rss_growth_mib": round(rss[1] - rss[0], 2),
            "rss_peak_mib": round(max(sample.rss for sample in samples) / MIB, 1),
            "fds": fds[1],
            "fds_growth": fds[1] - fds[0],
            "fds_peak": max(sample.fds for sample in samples),
        }


@asynccontextmanager
async def watching(pid: int) -> AsyncIterator[Watch]:
    """Look every half a second while the block lasts."""
    watch = Watch(pid)

    async def run() -> None:
        while True:
            watch.look()
            await asyncio.sleep(EVERY_S)

    task = asyncio.create_task(run())
    try:
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _sample(processes: list[psutil.Process]) -> Sample:
    return Sample(
        rss=sum(process.memory_info().rss for process in processes),
        fds=sum(process.num_fds() for process in processes),
    )
