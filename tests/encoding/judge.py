"""What a player sees in a file, found with the demuxer and the decoder, not with the code under test."""

from __future__ import annotations

import io
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Video:
    """A decoded file. `seconds` is the container's duration; `times` are in seconds, exact."""

    codec: str
    codec_tag: str
    pixel_format: str
    size: tuple[int, int]
    rate: Fraction
    colour: tuple[int, int, int, int]
    """Range, primaries, transfer, matrix."""
    seconds: float
    times: tuple[Fraction, ...]
    planes: Pixels
    """yuv420p, (T, H · 3 / 2, W)."""
    rgb: Pixels
    """(T, H, W, 3), converted by swscale as the tags say."""


def watch(source: Path | bytes) -> Video:
    """Decode everything."""
    with av.open(io.BytesIO(source) if isinstance(source, bytes) else str(source), "r") as container:
        stream = container.streams.video[0]
        frames = list(container.decode(stream))
        codec = stream.codec_context
        assert stream.time_base is not None
        return Video(
            codec=codec.name,
            codec_tag=codec.codec_tag,
            pixel_format=codec.pix_fmt or "",
            size=(codec.width, codec.height),
            rate=Fraction(stream.average_rate or 0),
            colour=(codec.color_range, codec.color_primaries, codec.color_trc, codec.colorspace),
            seconds=(container.duration or 0) / 1e6,
            times=tuple((frame.pts or 0) * Fraction(stream.time_base) for frame in frames),
            planes=np.stack([frame.to_ndarray(format="yuv420p") for frame in frames]).astype(np.uint8),
            rgb=np.stack([frame.to_ndarray(format="rgb24") for frame in frames]).astype(np.uint8),
        )


def boxes(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Kind and whole bytes of each box at the top level; what is cut short raises."""
    offset = 0
    while offset < len(data):
        size, kind = struct.unpack_from(">I4s", data, offset)
        assert 8 <= size <= len(data) - offset, f"box {kind!r} of {size} bytes at {offset}"
        yield kind.decode("latin-1"), data[offset : offset + size]
        offset += size


def box_order(data: bytes) -> list[str]:
    """The kinds at the top level, without padding."""
    return [kind for kind, _ in boxes(data) if kind != "free"]


def colour_box(data: bytes) -> tuple[int, int, int, int]:
    """Primaries, transfer, matrix and full-range flag of the file's `colr` box (kind `nclx`)."""
    at = data.index(b"colrnclx") + 8
    primaries, transfer, matrix, flags = struct.unpack_from(">3HB", data, at)
    return primaries, transfer, matrix, flags >> 7


def psnr(one: Pixels, other: Pixels) -> float:
    """In dB over all values."""
    error = np.square(one.astype(np.float64) - other.astype(np.float64)).mean()
    return math.inf if error == 0 else 10 * math.log10(255**2 / error)


CODINGS = {"libx264": ("h264", "avc1"), "libx265": ("hevc", "hvc1"), "libsvtav1": ("libdav1d", "av01")}
"""By encoder: what decodes it, and the name in an MP4 that players ask for."""


def assert_plays(
    source: Path | bytes, size: tuple[int, int], frames: int, rate: Fraction, codec: str = "libx264"
) -> Video:
    """A video by `codec` as every player takes it, of exactly this size, length and rate."""
    video = watch(source)
    assert (video.codec, video.codec_tag, video.pixel_format) == (*CODINGS[codec], "yuv420p")
    assert video.colour == (1, 1, 1, 1)
    assert (video.size, len(video.times), video.rate) == (size, frames, rate)
    assert video.times == tuple(index / rate for index in range(frames))
    assert video.seconds == pytest.approx(float(frames / rate), abs=2e-6)  # av counts microseconds
    return video
