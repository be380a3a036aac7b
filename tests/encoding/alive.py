"""How much of what was packed is really held, whatever any counter says."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

import torch

from encoding.frames import pack

if TYPE_CHECKING:
    import pytest

    from encoding.frames import Packing


class Alive:
    """The packed frames of all sinks, from when they are made until nothing refers to their memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.most = 0
        self.sizes: list[int] = []
        self._lock = threading.RLock()  # memory may be let go at any moment, of this thread too
        monkeypatch.setattr("encoding.transfer.pack", self._watched)

    def _watched(self, frames: torch.Tensor, packing: Packing) -> torch.Tensor:
        memory = pack(frames, packing).numpy().copy()  # which any view of the tensor keeps alive
        self._add(memory.nbytes)
        self.sizes.append(memory.nbytes)
        weakref.finalize(memory, self._add, -memory.nbytes)
        return torch.from_numpy(memory)

    def _add(self, size: int) -> None:
        with self._lock:
            self.bytes += size
            self.most = max(self.most, self.bytes)
