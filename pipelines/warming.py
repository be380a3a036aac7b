"""How a model is used once before its first request: what is made on first use is made then."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pipelines.errors import LoadFailed

logger = logging.getLogger(__name__)


@contextmanager
def warming(model: str, device: torch.device) -> Iterator[None]:
    """Wait for what the block has a GPU do, give back the memory that it took, and log how long that was."""
    started = time.monotonic()
    yield
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    told = {"model": model, "seconds": round(time.monotonic() - started, 3)}
    logger.info("model warmed", extra=told)


@contextmanager
def room_for(model: str, width: int, height: int) -> Iterator[None]:
    """A block that decodes, or encodes, at a size that requests are expected to have.

    Raises:
        LoadFailed: the device had no room for it; names the size.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise LoadFailed(
            f"model {model}: width and height are {width} and {height}; the device has no room to decode "
            f"that beside the weights. A smaller size takes less, as does offload: model. ({error})"
        ) from error
