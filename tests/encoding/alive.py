"""How much memory is really held, whatever any counter says."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

import numpy as np
import torch

from encoding.frames import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from encoding.frames import Packing


class Alive:
    """Memory that was made here and is still referred to, by any view of it."""

    def __init__(self) -> None:
        self.bytes = self.most = 0
        self.sizes: list[int] = []
        """Of each piece that was ever made."""
        self._lock = threading.RLock()  # memory may be let go at any moment, of this thread too

    def empty(self, shape: Sequence[int], dtype: torch.dtype, taken: int | None = None) -> torch.Tensor:
        """A tensor, counted as `taken` bytes, or as its own."""
        size = torch.Size(shape).numel() * dtype.itemsize
        memory = np.zeros(size, np.uint8)
        taken = size if taken is None else taken
        self._add(taken)
        self.sizes.append(taken)
        weakref.finalize(memory, self._add, -taken)
        return torch.from_numpy(memory).view(dtype).view(shape)

    def _add(self, size: int) -> None:
        with self._lock:
            self.bytes += size
            self.most = max(self.most, self.bytes)


def watch_packed(monkeypatch: pytest.MonkeyPatch) -> Alive:
    """The packed frames of all sinks from now on."""
    alive = Alive()

    def watched(frames: torch.Tensor, packing: Packing) -> torch.Tensor:
        packed = pack(frames, packing)
        return alive.empty(packed.shape, packed.dtype).copy_(packed)

    monkeypatch.setattr("encoding.transfer.pack", watched)
    return alive
