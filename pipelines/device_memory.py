"""torch's word for a full device, in the pipelines' own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pipelines.base import GenerationParams
from pipelines.errors import OutOfMemory


@contextmanager
def enough_memory_for(params: GenerationParams) -> Iterator[None]:
    """A block that works on a request.

    Raises:
        OutOfMemory: the device had no room for it; names the request's size and length.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemory(f"{params.width}x{params.height}, {params.num_frames} frames: {error}") from None
