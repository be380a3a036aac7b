"""The default of MP4 against `ultrafast` at the same quality: the same picture for a part of the bytes."""

from __future__ import annotations

import pytest

from benchmarks import codec_defaults
from benchmarks.contents import contents
from encoding.options import CODECS

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
