"""A device with streams of its own, as far as a transfer can see, whose memory is the host's."""

from __future__ import annotations

import weakref
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch

from encoding import sound, transfer
from tests.encoding.alive import Alive

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest


class Stream:
    """Work in order; `waits_for`: the streams that it was made to follow."""

    def __init__(self, _: object = None) -> None:
        self.waits_for: list[object] = []

    def wait_stream(self, other: object) -> None:
        self.waits_for.append(other)


class Event:
    """Has come; `after`: the stream whose work it follows."""

    after: object = None

    def record(self, stream: object) -> None:
        self.after = stream

    def query(self) -> bool:
        return True


class StandIn:
    """Takes the place of torch's streams; one of them, `producer`, is the current one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.producer = Stream()
        self.marked: list[tuple[weakref.ref[torch.Tensor], Stream]] = []
        """What the allocator was told is used by which stream."""
        self.locked = Alive()
        """What is page-locked."""
        for name, stand_in in {
            "Stream": Stream,
            "Event": Event,
            "device": nullcontext,
            "stream": nullcontext,
            "current_stream": lambda: self.producer,
        }.items():
            monkeypatch.setattr(torch.cuda, name, stand_in)
        mark = self._mark
        monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: mark(tensor, stream))
        monkeypatch.setattr(transfer, "page_locked", self._lock)
        monkeypatch.setattr(sound, "page_locked", self._lock)

    def _mark(self, tensor: torch.Tensor, stream: Stream) -> None:
        self.marked.append((weakref.ref(tensor), stream))

    def _lock(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """As torch's allocator does it: a power of two."""
        size, taken = torch.Size(shape).numel() * dtype.itemsize, 1
        while taken < size:
            taken *= 2
        return self.locked.empty(shape, dtype, taken)
