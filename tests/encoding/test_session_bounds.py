"""The rules of a sink: what it holds, and when it blocks."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch

from encoding.base import AudioSpec, OutputSpec
from encoding.bounded import BoundedQueue
from encoding.errors import BadFrames
from encoding.formats import open_sink
from encoding.frames import YUV420P
from encoding.sound import SoundArrival, send_sound
from encoding.transfer import CudaTransfer
from tests.encoding.alive import watch_packed
from tests.encoding.clips import SUFFIXES, chunks, describe, smooth, sweep
from tests.encoding.held import HELD_S, HeldWriter, open_held
from tests.encoding.stand_in import StandIn


def test_packed_frames_stay_below_the_bound(
    tmp_path: Path, writers: list[HeldWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a slow encoder and chunks of all sizes, no more lives than may; the blocked time is told."""
    alive = watch_packed(monkeypatch)
    reserve, waits = BoundedQueue.reserve, []

    def noted(queue: BoundedQueue[object], size: int) -> float:
        reserve(queue, size)
        waits.append(size)
        return float(len(waits))  # seconds, as if it had waited for so long

    monkeypatch.setattr(BoundedQueue, "reserve", noted)
    clip = smooth(40, 32, 48)
    bound = 5 * YUV420P.packed_bytes(1, 48, 32)
    sink = open_held(describe(tmp_path / "clip.mp4", clip, max_pending_bytes=bound), writers)
    told: list[int] = []

    def look() -> None:
        told.append(sink.pending_bytes)
        time.sleep(0.003)

    writers[-1].before_each = look
    writers[-1].may_go.set()
    for first, last in ((0, 1), (1, 4), (4, 40)):  # the last chunk is seven times the bound
        sink.write(clip[:, first:last])
    artifact = sink.close()
    assert 0 < max(told) <= bound
    assert 0 < alive.most <= bound
    assert alive.bytes == 0
    assert artifact.blocked_seconds == sum(range(1, len(waits) + 1)) > 1
    assert sum(record.frames for record in artifact.records) == 40


def test_a_frame_larger_than_the_bound_passes_alone(tmp_path: Path, writers: list[HeldWriter]) -> None:
    """A bound that not one frame fits into means one at a time, not never."""
    clip = smooth(6, 32, 48)
    sink = open_held(describe(tmp_path / "clip.mp4", clip, max_pending_bytes=10), writers)
    held: list[int] = []
    writers[-1].before_each = lambda: held.append(sink.pending_bytes)
    writers[-1].may_go.set()
    sink.write(clip)
    sink.finish()
    assert sink.close().num_frames == 6
    assert set(held) == {YUV420P.packed_bytes(1, 48, 32)}


def test_what_is_encoded_is_let_go_before_more_comes(
    tmp_path: Path, writers: list[HeldWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When room is told of, the frames that took it are gone: also the last ones, while none follow."""
    alive, left, gone = watch_packed(monkeypatch), [], threading.Event()
    release = BoundedQueue.release

    def noted(queue: BoundedQueue[object], size: int) -> None:
        left.append(alive.bytes)
        release(queue, size)
        gone.set()

    monkeypatch.setattr(BoundedQueue, "release", noted)
    clip = smooth(4, 32, 48)
    sink = open_held(describe(tmp_path / "clip.mp4", clip), writers)
    writers[-1].may_go.set()
    for frames in chunks(clip, 2):
        gone.clear()
        sink.write(frames)
        assert gone.wait(HELD_S)
    sink.close()
    assert len(alive.sizes) == 2
    assert left == [0, 0]


def test_page_locked_memory_stays_below_the_bound(
    tmp_path: Path, writers: list[HeldWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch takes up to twice what it is asked for, and that counts."""
    device = StandIn(monkeypatch)
    monkeypatch.setattr("encoding.session.open_transfer", CudaTransfer)
    clip, bound = smooth(40, 32, 48), 2**14
    sink = open_held(describe(tmp_path / "clip.mp4", clip, max_pending_bytes=bound), writers)
    told: list[int] = []
    writers[-1].before_each = lambda: told.append(sink.pending_bytes)
    writers[-1].may_go.set()
    for first, last in ((0, 1), (1, 3), (3, 8), (8, 40)):
        sink.write(clip[:, first:last])
    assert sink.close().num_frames == 40
    assert 0 < device.locked.most <= bound
    assert set(told) <= {4096, 8192, 12_288, 16_384}


def test_sound_is_sent_when_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no memory before."""
    clip, sound = smooth(9, 32, 48), sweep(16_000, 2, 0.1)
    order: list[object] = []
    reserve = BoundedQueue.reserve

    def noted(queue: BoundedQueue[object], size: int) -> float:
        order.append(size)
        return reserve(queue, size)

    def sent(samples: torch.Tensor, spec: OutputSpec) -> SoundArrival:
        order.append("sent")
        return send_sound(samples, spec)

    monkeypatch.setattr(BoundedQueue, "reserve", noted)
    monkeypatch.setattr("encoding.session.send_sound", sent)
    with open_sink(describe(tmp_path / "clip.mp4", clip, audio=AudioSpec(16_000, 2))) as sink:
        sink.write_sound(sound, 16_000)
        assert order == [2 * 1600 * 4, "sent"]
        sink.write(clip)
    sink.close()


def test_many_sinks_leave_nothing(tmp_path: Path) -> None:
    """Finished, aborted and failed ones side by side: no thread, descriptor or file too many."""
    clip = smooth(9, 32, 48)
    for round_ in range(8):
        sinks = [open_sink(describe(tmp_path / f"{round_}{suffix}", clip)) for suffix in SUFFIXES]
        for sink in sinks:
            sink.write(clip[:, :8])
        sinks[0].abort()
        sinks[2].finish()
        for index in (1, 3):
            sinks[index].write(clip[:, 8:])
            sinks[index].close()
        assert isinstance(sinks[2].result.exception(60), BadFrames)
    assert len(list(tmp_path.iterdir())) == 16
