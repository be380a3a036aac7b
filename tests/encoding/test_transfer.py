"""Waiting for a copy on its way to the host."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from encoding.base import AudioSpec
from encoding.frames import YUV420P, pack
from encoding.sound import held_bytes, send_sound
from encoding.transfer import Arrival, CudaTransfer, PinnedPool, Stopped
from tests.encoding.alive import watch_packed
from tests.encoding.clips import describe, smooth, sweep
from tests.encoding.stand_in import Event, StandIn

if TYPE_CHECKING:
    from collections.abc import Callable


class Copy:
    """An event of the device; `looks` at it later it has come, and each look calls `at_look`."""

    def __init__(self, looks: int, at_look: Callable[[], None] = lambda: None) -> None:
        self.left = looks
        self._at_look = at_look

    def query(self) -> bool:
        self._at_look()
        self.left -= 1
        return self.left < 0


def arriving(event: Copy) -> Arrival:
    """Two frames of three bytes, all finite."""
    found: Any = event
    return Arrival(2, torch.tensor([1, 2, 3, 4, 5, 6, 1], dtype=torch.uint8), found)


@pytest.mark.parametrize("last", [False, True])
def test_frames_are_given_when_they_have_come(*, last: bool) -> None:
    event = Copy(3)
    frames = arriving(event).wait(threading.Event(), last=last)
    assert frames.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert event.left == -1


@pytest.mark.parametrize("last", [False, True])
def test_a_wait_ends_when_the_sink_is_aborted(*, last: bool) -> None:
    """Though the copy never ends."""
    stop = threading.Event()
    event = Copy(10**9, stop.set)
    with pytest.raises(Stopped):
        arriving(event).wait(stop, last=last)
    assert event.left == 10**9 - 1


def test_nothing_of_the_device_is_held_once_frames_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The allocator knows of the stream that copies, so nobody need hold them until their turn comes."""
    device, alive = StandIn(monkeypatch), watch_packed(monkeypatch)
    clip = smooth(3, 32, 48)
    arrival = CudaTransfer(YUV420P, torch.device("cuda"), 2**20).send(clip)
    assert alive.sizes == [YUV420P.packed_bytes(3, 48, 32)]
    assert alive.bytes == 0
    assert isinstance(arrival.event, Event)
    assert [stream for _, stream in device.marked] == [arrival.event.after]
    assert device.marked[0][1].waits_for == [device.producer]
    assert torch.equal(arrival.wait(threading.Event()), pack(clip, YUV420P)[:-1].view(3, -1))


def test_nothing_of_the_device_is_held_once_sound_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of frames."""
    device = StandIn(monkeypatch)
    sound = sweep(16_000, 2, 0.1)
    spec = describe(tmp_path / "clip.mp4", smooth(9, 32, 48), audio=AudioSpec(16_000, 2))
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    arrival, told = send_sound(sound, spec), held_bytes(sound, spec)
    monkeypatch.undo()
    assert device.locked.most == told == 16_384  # for 2 channels of 1600 samples, 4 bytes each
    [(held, stream)] = device.marked
    assert held() is None
    assert isinstance(arrival.event, Event)
    assert arrival.event.after is stream
    assert stream.waits_for == [device.producer]
    assert torch.equal(arrival.wait(threading.Event()), sound)


def test_page_locked_memory_is_bounded_and_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what torch takes for it; buffers come back for chunks of about their size, idle ones make room."""
    locked = StandIn(monkeypatch).locked
    pool = PinnedPool(1024)
    first = pool.take(400)
    place = first.data_ptr()
    pool.give(first)
    first = pool.take(300)
    assert first.data_ptr() == place
    second = pool.take(257)
    assert locked.bytes == pool.total == 1024
    pool.give(second)
    del second
    third = pool.take(200)
    assert locked.bytes == pool.total == 512 + third.numel() == 768
    assert locked.most == 1024
