"""The device of a worker process. For that process alone: it imports torch."""

from __future__ import annotations

import gc
import logging

import torch

logger = logging.getLogger("reelserve.worker")


class Device:
    """`name` as torch has it; `auto` is the first GPU, or else the CPU."""

    def __init__(self, name: str) -> None:
        first = "cuda:0" if torch.cuda.is_available() else "cpu"
        self.name = first if name == "auto" else name
        self._is_cuda = self.name.startswith("cuda")

    @property
    def label(self) -> str:
        """With the card's name: `cuda:0 (NVIDIA H200)`."""
        return f"{self.name} ({torch.cuda.get_device_name(self.name)})" if self._is_cuda else self.name

    def settle(self) -> None:
        """Return when it has done all that it was given so far.

        Raises:
            RuntimeError: an error of what it was given.
        """
        if self._is_cuda:
            torch.cuda.synchronize(self.name)

    def log_peak(self, job_id: str) -> None:
        """Log the most memory that was in use since the last call."""
        if self._is_cuda:
            peak = torch.cuda.max_memory_allocated(self.name)
            torch.cuda.reset_peak_memory_stats(self.name)
            logger.info("peak of device memory", extra={"job_id": job_id, "bytes": peak})

    def tidy(self) -> None:
        """Collect what cycles hold, and give the device's free memory back.

        Raises:
            RuntimeError: the device answers with errors only.
        """
        gc.collect()
        self.settle()
        if self._is_cuda:
            torch.cuda.empty_cache()
