"""How a model is used once before its first request: what is made on first use is made then."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

logger = logging.getLogger(__name__)


@contextmanager
def warming(model: str, device: torch.device) -> Iterator[None]:
    """Wait for what the block has a GPU do, give back the memory that it took, and log how long that was."""
    started = time.monotonic()
    yield
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    told = {"model": model, "seconds": round(time.monotonic() - started, 3)}
    logger.info("decoder warmed", extra=told)
