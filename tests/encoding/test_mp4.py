"""A finished MP4 is what every player takes, and exactly what was asked for."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

from encoding.frames import RGB24, pack
from encoding.options import resolve
from tests.encoding.clips import FILM, describe, encode, flat, noise, smooth
from tests.encoding.judge import assert_plays, box_order, colour_box, psnr, watch

SIZES = [(100, 60), (16, 16), (2, 2), (130, 34), (160, 96)]
RATES = [
    FILM,
    Fraction(24000, 1001),
    Fraction(1),
    Fraction(120),
    Fraction(16),
    Fraction(30000, 1001),
    Fraction(2**31 - 1, 10**8),
]


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("frames", [1, 2, 3, 18])
def test_length_and_rate_are_exact(tmp_path: Path, rate: Fraction, frames: int) -> None:
    """Time stamps are k / rate from 0 on, and the duration is frames / rate, down to a single frame."""
    clip = smooth(frames, 34, 50)
    artifact = encode(describe(tmp_path / "clip.mp4", clip, rate), clip)
    assert_plays(artifact.path, (50, 34), frames, rate)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_any_even_size_is_kept(tmp_path: Path, width: int, height: int) -> None:
    """No size is rounded to the codec's blocks."""
    clip = smooth(5, height, width)
    artifact = encode(describe(tmp_path / "clip.mp4", clip), clip)
    assert_plays(artifact.path, (width, height), 5, FILM)


def test_the_index_stands_before_the_pictures(tmp_path: Path) -> None:
    """`ftyp moov mdat`: a browser starts before it has the whole file."""
    clip = noise(40, 64, 64)
    artifact = encode(describe(tmp_path / "clip.mp4", clip), clip)
    assert box_order(artifact.path.read_bytes()) == ["ftyp", "moov", "mdat"]


@pytest.mark.parametrize("given", [{"gop": 1}, {"preset": "veryslow", "gop": 1000}, {"tune": "zerolatency"}])
def test_the_room_for_the_index_suffices(tmp_path: Path, given: dict[str, object]) -> None:
    """Key frames only, or the most reordering that x264 does: the index is in front, the count right."""
    clip = smooth(400, 16, 16)
    spec = describe(tmp_path / "clip.mp4", clip, options=resolve("libx264", given, present=True))
    artifact = encode(spec, clip, chunk=100)
    assert box_order(artifact.path.read_bytes()) == ["ftyp", "moov", "mdat"]
    assert_plays(artifact.path, (16, 16), 400, FILM)


def test_colours_are_tagged_in_stream_and_container(tmp_path: Path) -> None:
    """BT.709, limited range, in the `colr` box as well; what `assert_plays` sees is the stream's own."""
    clip = smooth(2, 32, 32)
    artifact = encode(describe(tmp_path / "clip.mp4", clip), clip)
    assert colour_box(artifact.path.read_bytes()) == (1, 1, 1, 0)


def test_pure_red_comes_back(tmp_path: Path) -> None:
    """Luma 63 in the file, (254, 0, 0) on the screen."""
    clip = flat((1, -1, -1), 5, 64, 96)
    video = watch(encode(describe(tmp_path / "clip.mp4", clip), clip).path)
    assert np.unique(video.planes[:, :64]).tolist() == [63]
    assert np.unique(video.rgb.reshape(-1, 3), axis=0).tolist() == [[254, 0, 0]]


def test_overshoot_makes_no_speckle(tmp_path: Path) -> None:
    """Values beyond ±1 stay white and black."""
    clip = flat((1.4, 1.4, 1.4), 4, 32, 32).clone()
    clip[..., 16:] = -1.4
    video = watch(encode(describe(tmp_path / "clip.mp4", clip), clip).path)
    assert video.rgb[:, :, :12].min() >= 250
    assert video.rgb[:, :, 20:].max() <= 5


def test_smooth_content_survives_the_default_codec(tmp_path: Path) -> None:
    """More than 38 dB over RGB at the service's own options."""
    clip = smooth(17, 96, 160)
    video = watch(encode(describe(tmp_path / "clip.mp4", clip), clip).path)
    original = pack(clip, RGB24)[:-1].view(17, 96, 160, 3).numpy()
    assert psnr(video.rgb, original) > 38


@pytest.mark.parametrize("given", [None, {"profile": "baseline"}, {"bitrate": 500_000}, {"crf": 0}])
def test_any_allowed_options_keep_tags_and_times(tmp_path: Path, given: dict[str, object] | None) -> None:
    """The codec's own defaults and a request's options change the coding, nothing else."""
    clip = smooth(9, 48, 64)
    spec = describe(tmp_path / "clip.mp4", clip, options=resolve("libx264", given, present=True))
    assert_plays(encode(spec, clip).path, (64, 48), 9, FILM)


def test_chunks_do_not_show(tmp_path: Path) -> None:
    """The file is the same byte for byte for any split into chunks, and for the same frames in float64."""
    clip = noise(13, 60, 100)
    whole = encode(describe(tmp_path / "whole.mp4", clip), clip, chunk=13).path.read_bytes()
    for size in (1, 4, 5):
        assert encode(describe(tmp_path / "parts.mp4", clip), clip, chunk=size).path.read_bytes() == whole
    assert encode(describe(tmp_path / "double.mp4", clip), clip.double()).path.read_bytes() == whole


def test_frames_come_in_order(tmp_path: Path) -> None:
    """Each frame shows its own level of grey."""
    levels = torch.linspace(-1, 1, 24)
    clip = levels[None, :, None, None].expand(3, 24, 32, 32)
    video = watch(encode(describe(tmp_path / "clip.mp4", clip), clip, chunk=5).path)
    shown = video.rgb.reshape(24, -1).mean(axis=1)
    np.testing.assert_allclose(shown, (levels.numpy() + 1) * 127.5, atol=2)


def test_a_webm_holds_every_frame(tmp_path: Path) -> None:
    """VP9 in WebM: size, count and colour tags; its clock counts milliseconds."""
    clip = smooth(30, 60, 100)
    artifact = encode(describe(tmp_path / "clip.webm", clip), clip)
    video = watch(artifact.path)
    assert (video.codec, video.size, len(video.times)) == ("vp9", (100, 60), 30)
    assert video.colour == (1, 1, 1, 1)
    assert max(abs(time - index / FILM) for index, time in enumerate(video.times)) <= Fraction(1, 1000)
    assert abs(video.seconds - float(30 / FILM)) < 0.003
    original = pack(clip, RGB24)[:-1].view(30, 60, 100, 3).numpy()
    assert psnr(video.rgb, original) > 35


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_an_artifact_describes_its_file(tmp_path: Path, suffix: str) -> None:
    """What is reported is what is on the disk, with a record for each chunk in the order of time."""
    clip = smooth(9, 32, 48)
    artifact = encode(describe(tmp_path / f"clip{suffix}", clip), clip, chunk=4)
    assert artifact.path == tmp_path / f"clip{suffix}"
    assert artifact.format == suffix[1:]
    assert artifact.size_bytes == artifact.path.stat().st_size
    assert (artifact.width, artifact.height, artifact.num_frames, artifact.fps) == (48, 32, 9, FILM)
    assert [record.frames for record in artifact.records] == [4, 4, 1]
    encoded_before = 0.0
    for record in artifact.records:
        assert max(record.written, encoded_before) <= record.taken <= record.encoded
        encoded_before = record.encoded
    assert artifact.tail_seconds > 0
