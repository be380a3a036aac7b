"""The default of MP4 against `ultrafast` at the same quality: the same picture for a part of the bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import codec_defaults
from benchmarks.contents import contents
from encoding.frames import YUV420P, pack
from encoding.mp4 import VideoWriter
from encoding.options import CODECS
from tests.encoding.clips import describe, noise

HEIGHT, WIDTH, FRAMES = 240, 416, 49
CLIPS = contents(HEIGHT, WIDTH, FRAMES)


@pytest.mark.parametrize(("content", "share", "lost"), [("smooth", 0.5, 0.7), ("mixed", 0.5, 0.7)])
def test_the_default_makes_half_the_bytes(
    content: str, share: float, lost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most `share` of the bytes for at most `lost` dB of PSNR; at 480 × 832 it is a third."""
    for name, value in (("HEIGHT", HEIGHT), ("WIDTH", WIDTH), ("FRAMES", FRAMES)):
        monkeypatch.setattr(codec_defaults, name, value)
    default = dict(CODECS["libx264"].defaults)
    _, ours, near = codec_defaults.measure("mp4", default, CLIPS[content])
    _, theirs, nearest = codec_defaults.measure("mp4", default | {"preset": "ultrafast"}, CLIPS[content])
    assert ours <= share * theirs
    assert near >= nearest - lost


@pytest.mark.parametrize(("preset", "most"), [(None, 3), ("ultrafast", 0)])
def test_few_frames_are_left_at_the_end(tmp_path: Path, preset: str | None, most: int) -> None:
    """What the encoder holds back is what a video's end waits for, and a viewer at every chunk."""
    clip = noise(12, 48, 64)
    options = {"preset": preset, "crf": "18"} if preset is not None else None
    path = tmp_path / "clip.mp4"
    with path.open("w+b") as file:
        writer = VideoWriter(describe(path, clip, options=options), file)
        for frame in pack(clip, YUV420P)[:-1].view(12, -1):
            writer.add(frame)
        held = sum(1 for _ in writer.drain())
        writer.close()
        writer.abandon()
    assert held <= most
