"""Packed frames on their way to the host: copied beside the producer's work, and waited for elsewhere."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import torch

from encoding.errors import BadFrames
from encoding.frames import Packing, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_POLL_SECONDS = 0.0005
"""How often a copy that is under way is looked at: the wait must end when its sink is aborted."""
_LAST_POLL_SECONDS = 0.0001
"""The same when somebody waits for the file. It takes 15 % of a processor instead of 6."""


class Stopped(Exception):
    """The wait was given up because its sink was aborted."""


class Transfer(Protocol):
    """Takes chunks (3, T, H, W) of one device to the host, in order."""

    def held_bytes(self, size: int) -> int:
        """What of the host's memory `size` packed bytes take."""

    def send(self, frames: torch.Tensor) -> Arrival:
        """Start; `frames` may be overwritten by later work on the same stream as soon as this returns."""


@dataclass(slots=True)
class Arrival:
    """A chunk of `frames` frames that is, or soon will be, in host memory."""

    frames: int
    host: torch.Tensor
    """uint8, as `frames.pack` lays it out."""
    event: torch.cuda.Event | None = None
    """Fires when the copy is done; None when there was none to wait for."""
    give_back: Callable[[], None] | None = None
    """What `release` tells whose memory it is."""

    def wait(self, stop: threading.Event, *, last: bool = False) -> torch.Tensor:
        """The packed frames, uint8 (T, frame_bytes), valid until `release`; looks more often for the `last`.

        Raises:
            BadFrames: a value was NaN or infinite.
            Stopped: `stop` was set first.
        """
        wait_for(self.event, stop, _LAST_POLL_SECONDS if last else _POLL_SECONDS)
        if not int(self.host[-1]):
            raise BadFrames("frames: NaN or infinity found, finite values in [-1, 1] expected")
        return self.host[:-1].view(self.frames, -1)

    def release(self) -> None:
        """Give the host memory back, and refer to it no more; not before the copy is done."""
        self.host = self.host.new_empty(0)
        if self.give_back is not None:
            self.give_back()
            self.give_back = None


def wait_for(
    event: torch.cuda.Event | None, stop: threading.Event, poll_seconds: float = _POLL_SECONDS
) -> None:
    """Return when the device has come to `event`, which is looked at every `poll_seconds`.

    Raises:
        Stopped: `stop` was set first.
    """
    while event is not None and not event.query():  # type: ignore[no-untyped-call]  # torch's
        if stop.wait(poll_seconds):
            raise Stopped


class HostTransfer:
    """Frames that the host can read already, or whose device has no asynchronous copies."""

    def __init__(self, packing: Packing) -> None:
        self._packing = packing

    def held_bytes(self, size: int) -> int:
        return size

    def send(self, frames: torch.Tensor) -> Arrival:
        with torch.inference_mode():
            return Arrival(frames.shape[1], pack(frames, self._packing).cpu())


class CudaTransfer:
    """Converts on the producer's stream, copies on its own into at most `limit` page-locked bytes."""

    def __init__(self, packing: Packing, device: torch.device, limit: int) -> None:
        self._packing = packing
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's
        self._pool = PinnedPool(limit)

    def held_bytes(self, size: int) -> int:
        return locked_bytes(size)

    def send(self, frames: torch.Tensor) -> Arrival:
        with torch.inference_mode(), torch.cuda.device(frames.device):
            packed = pack(frames, self._packing)
            buffer = self._pool.take(packed.numel())
            host = buffer[: packed.numel()]
            event = copied_beside(packed, host, self._stream)
        return Arrival(frames.shape[1], host, event, partial(self._pool.give, buffer))


def copied_beside(source: torch.Tensor, host: torch.Tensor, stream: torch.cuda.Stream) -> torch.cuda.Event:
    """Copy `source`, made on the current stream, to page-locked `host` on `stream`; the event fires then.

    The caller lets go of `source` at once: the allocator gives its memory to others when what `stream` was
    given until then is done, so none is held for a chunk that has come and waits for its encoder.
    """
    stream.wait_stream(torch.cuda.current_stream())
    source.record_stream(stream)
    with torch.cuda.stream(stream):
        host.copy_(source, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch's
    event.record(stream)
    return event


def page_locked(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Memory of the host that devices copy to by themselves, with any content."""
    return torch.empty(shape, dtype=dtype, pin_memory=True)


def locked_bytes(size: int) -> int:
    """What torch page-locks for `size` bytes: its allocator rounds up to a power of two."""
    return 1 << max(0, size - 1).bit_length()


class PinnedPool:
    """Page-locked buffers, at most `limit` bytes of them unless a single one is larger or more are taken.

    All are as large as torch makes them, so chunks of about a size share them; idle ones of other sizes go
    when room is needed. torch keeps those for its next user, and would give them out again only when all
    copies are done that were begun before they went, which may be many: a reason to keep ours here.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._idle: list[torch.Tensor] = []
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes of all buffers, taken and idle."""
        return self._total

    def take(self, size: int) -> torch.Tensor:
        """A uint8 buffer of `locked_bytes(size)` bytes with any content."""
        size = locked_bytes(size)
        with self._lock:
            place = next((index for index, idle in enumerate(self._idle) if idle.numel() == size), None)
            if place is not None:
                return self._idle.pop(place)
            while self._idle and self._total + size > self._limit:
                self._total -= self._idle.pop().numel()
            self._total += size
        return page_locked((size,), torch.uint8)

    def give(self, buffer: torch.Tensor) -> None:
        with self._lock:
            self._idle.append(buffer)


def open_transfer(packing: Packing, device: torch.device, limit: int) -> Transfer:
    """The way to the host from `device`, holding at most `limit` bytes of page-locked memory."""
    return CudaTransfer(packing, device, limit) if device.type == "cuda" else HostTransfer(packing)
