"""HEVC and AV1 in MP4 are held to what H.264 is; `test_mp4.py` and `test_live.py` say the rest."""

from __future__ import annotations

import time
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from encoding.base import Sink
from encoding.formats import open_sink
from encoding.frames import RGB24, YUV420P, pack
from encoding.options import CODECS, resolve
from encoding.stills import from_video
from tests.encoding.aborting import assert_abort_is_quick
from tests.encoding.alive import watch_packed
from tests.encoding.clips import FILM, chunks, describe, encode, flat, noise, smooth
from tests.encoding.judge import assert_plays, box_order, boxes, colour_box, psnr, watch

RATES = [FILM, Fraction(24000, 1001), Fraction(1), Fraction(120), Fraction(2**31 - 1, 10**8)]

pytestmark = pytest.mark.parametrize("codec", ["libx265", "libsvtav1"])


@pytest.mark.parametrize("rate", RATES, ids=str)
@pytest.mark.parametrize("frames", [1, 2, 18])
def test_length_and_rate_are_exact(tmp_path: Path, codec: str, rate: Fraction, frames: int) -> None:
    """Time stamps are k / rate, the index is in front, and the colours are in the container too."""
    clip = smooth(frames, 34, 50)
    artifact = encode(describe(tmp_path / "clip.mp4", clip, rate, codec=codec), clip)
    assert_plays(artifact.path, (50, 34), frames, rate, codec)
    data = artifact.path.read_bytes()
    assert box_order(data) == ["ftyp", "moov", "mdat"]
    assert colour_box(data) == (1, 1, 1, 0)


@pytest.mark.parametrize(("width", "height"), [(100, 60), (0, 0), (0, 130), (258, 0), (160, 96)])
def test_any_even_size_from_the_least_on_is_kept(tmp_path: Path, codec: str, width: int, height: int) -> None:
    """0 stands for the shortest side that the encoder is said to take, also beside a much longer one."""
    width, height = width or CODECS[codec].min_side, height or CODECS[codec].min_side
    clip = noise(9, height, width)
    artifact = encode(describe(tmp_path / "clip.mp4", clip, codec=codec), clip)
    assert_plays(artifact.path, (width, height), 9, FILM, codec)


def test_the_room_for_the_index_suffices(tmp_path: Path, codec: str) -> None:
    """Key frames only: no entry of the index is shared."""
    clip = smooth(200, 48, 48)
    options = resolve(codec, {"gop": 1}, present=True)
    artifact = encode(describe(tmp_path / "clip.mp4", clip, options=options, codec=codec), clip, chunk=50)
    assert box_order(artifact.path.read_bytes()) == ["ftyp", "moov", "mdat"]
    assert_plays(artifact.path, (48, 48), 200, FILM, codec)


def test_pure_red_comes_back(tmp_path: Path, codec: str) -> None:
    """Luma 63 in the file, (254, 0, 0) on the screen, give or take a level."""
    clip = flat((1, -1, -1), 5, 64, 96)
    video = watch(encode(describe(tmp_path / "clip.mp4", clip, codec=codec), clip).path)
    assert set(np.unique(video.planes[:, :64]).tolist()) <= {62, 63, 64}
    assert np.abs(video.rgb.astype(int) - (254, 0, 0)).max() <= 3


def test_smooth_content_survives_the_default(tmp_path: Path, codec: str) -> None:
    """More than 38 dB over RGB at the service's own options, frame by frame in order."""
    clip = smooth(17, 96, 160)
    video = watch(encode(describe(tmp_path / "clip.mp4", clip, codec=codec), clip).path)
    original = pack(clip, RGB24)[:-1].view(17, 96, 160, 3).numpy()
    assert min(psnr(video.rgb[index], original[index]) for index in range(17)) > 38


def test_chunks_do_not_show(tmp_path: Path, codec: str) -> None:
    """The file is the same byte for byte for any split, and with a viewer."""
    clip = noise(13, 60, 100)
    spec = describe(tmp_path / "clip.mp4", clip, codec=codec)
    whole = encode(spec, clip, chunk=13).path.read_bytes()
    assert encode(spec, clip, chunk=4).path.read_bytes() == whole
    assert encode(spec, clip, chunk=5, live=lambda _: None).path.read_bytes() == whole


@pytest.mark.parametrize("frames", [1, 2, 29])
def test_every_prefix_of_the_stream_plays(tmp_path: Path, codec: str, frames: int) -> None:
    """What was sent up to any fragment is a video without a gap; all of it is the file's pictures.

    Nothing is held back: every chunk brings its frames.
    """
    sent: list[bytes] = []
    clip = noise(frames, 48, 64)
    path = encode(describe(tmp_path / "clip.mp4", clip, codec=codec), clip, live=sent.append).path
    assert box_order(sent[0]) == ["ftyp", "moov"]
    assert all(box_order(data) == ["moof", "mdat"] for data in sent[1:])
    shown = [len(watch(prefix).times) for prefix in list(accumulate(sent))[1:]]
    assert shown == [*range(4, frames, 4), frames]
    streamed = assert_plays(b"".join(sent), (64, 48), frames, FILM, codec)
    filed = assert_plays(path, (64, 48), frames, FILM, codec)
    np.testing.assert_array_equal(streamed.planes, filed.planes)
    assert colour_box(sent[0]) == (1, 1, 1, 0)
    assert _pictures(b"".join(sent)) == _pictures(path.read_bytes())


def _pictures(data: bytes) -> bytes:
    return b"".join(box[8:] for kind, box in boxes(data) if kind == "mdat")


def test_previews_find_their_frames(tmp_path: Path, codec: str) -> None:
    """Single frames out of the middle are those frames."""
    clip = smooth(17, 64, 96)
    path = encode(describe(tmp_path / "clip.mp4", clip, codec=codec), clip).path
    original = pack(clip, RGB24)[:-1].view(17, 64, 96, 3).numpy()
    for number, picture in zip((0, 9, 16), from_video(path, (0, 9, 16)), strict=True):
        assert psnr(np.asarray(picture), original[number]) > 36


@pytest.mark.parametrize("wait_s", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("finish", [False, True])
def test_abort_is_quick_at_any_stage(tmp_path: Path, codec: str, wait_s: float, *, finish: bool) -> None:
    """With noise before it, the encoder is left at once: closing it must not wait for its work."""
    clip = noise(32, 480, 832)

    def make_busy() -> Sink:
        sink = open_sink(describe(tmp_path / "clip.mp4", clip, max_pending_bytes=2**28, codec=codec))
        sink.write(clip)
        if finish:
            sink.finish()
        time.sleep(wait_s)
        return sink

    assert_abort_is_quick(tmp_path, make_busy)


def test_packed_frames_stay_in_their_bound(
    tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder that is slower than its producer makes it wait; its own lookahead holds nothing more."""
    clip = noise(24, 240, 416)
    frame = YUV420P.packed_bytes(1, 416, 240)
    spec = describe(tmp_path / "clip.mp4", clip, max_pending_bytes=3 * frame, codec=codec)
    alive = watch_packed(monkeypatch)
    with open_sink(spec) as sink:
        for frames in chunks(clip, 2):
            sink.write(frames)
    assert 0 < alive.most <= 3 * frame
    assert sink.close().blocked_seconds > 0
