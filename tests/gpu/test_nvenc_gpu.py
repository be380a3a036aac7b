"""A card's own encoders, where it has them; which cards have none is told by `test_probe.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoding.frames import RGB24, pack
from encoding.probe import available_codecs
from tests.encoding.clips import FILM, describe, encode, smooth
from tests.encoding.judge import box_order, colour_box, psnr, watch

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("codec", "tag"), [("h264_nvenc", "avc1"), ("hevc_nvenc", "hvc1"), ("av1_nvenc", "av01")]
)
def test_a_file_by_the_card(tmp_path: Path, codec: str, tag: str) -> None:
    """It plays like any other, and so does its stream."""
    if codec not in available_codecs("mp4"):
        pytest.skip(f"this card or its driver has no {codec}")
    sent: list[bytes] = []
    clip = smooth(17, 256, 320)
    data = encode(
        describe(tmp_path / "clip.mp4", clip, codec=codec), clip, live=sent.append
    ).path.read_bytes()
    original = pack(clip, RGB24)[:-1].view(17, 256, 320, 3).numpy()
    for made in (data, b"".join(sent)):
        video = watch(made)
        assert (video.codec_tag, video.size, video.colour) == (tag, (320, 256), (1, 1, 1, 1))
        assert video.times == tuple(index / FILM for index in range(17))
        assert psnr(video.rgb, original) > 36
    assert box_order(data) == ["ftyp", "moov", "mdat"]
    assert colour_box(data) == (1, 1, 1, 0)
