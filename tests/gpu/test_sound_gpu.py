"""Sound that a CUDA device made reaches the file as it was, without making the producer wait."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch

from encoding.base import AudioSpec
from encoding.formats import open_sink
from encoding.sound import send_sound
from tests.encoding.clips import describe, smooth, sweep
from tests.gpu.test_frames_gpu import keep_busy

pytestmark = pytest.mark.gpu

CLIP = smooth(9, 32, 48)


def test_the_source_may_be_overwritten_at_once(tmp_path: Path) -> None:
    """Later work on the same stream does not reach the sound, however far behind the device is."""
    sound = sweep(16_000, 2, 0.3)
    spec = describe(tmp_path / "clip.pt", CLIP, audio=AudioSpec(16_000, 2))
    buffer = sound.cuda()
    keep_busy(0.3)
    began = time.monotonic()
    arrival = send_sound(buffer, spec)
    assert time.monotonic() - began < 0.1
    buffer.fill_(float("nan"))
    del buffer
    torch.full((2, sound.shape[1]), 9.0, device="cuda")  # takes the memory that was just given up
    assert torch.equal(arrival.wait(threading.Event()), sound)


def test_sound_and_frames_of_the_device(tmp_path: Path) -> None:
    """In half precision, as a model may give them."""
    sound = sweep(16_000, 1, 0.3).to(torch.bfloat16)
    with open_sink(describe(tmp_path / "clip.pt", CLIP, audio=AudioSpec(16_000, 1))) as sink:
        sink.write(CLIP.cuda())
        sink.write_sound(sound.cuda(), 16_000)
    heard = torch.load(sink.close().path, weights_only=True)["audio"]
    assert torch.equal(heard[:, : sound.shape[1]], sound.float())
