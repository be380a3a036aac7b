"""What this build of FFmpeg can really encode, tried before a job depends on it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import cast

import av
from av.video.codeccontext import VideoCodecContext

from encoding.base import OutputSpec
from encoding.encoder import check_video, find_encoder, open_encoder
from encoding.errors import EncodingError, InvalidSpec
from encoding.formats import FORMATS
from encoding.tensor import check_raw


def available_formats() -> tuple[str, ...]:
    """The keys of `FORMATS` that can be made here: each encoder has encoded a tiny frame."""
    return tuple(name for name in FORMATS if _works(name))


def try_spec(spec: OutputSpec) -> None:
    """Open the encoder as the output will, and leave nothing.

    Raises:
        InvalidSpec, InvalidOption, EncoderMissing, EncodingError: what would refuse the output.
    """
    if (row := FORMATS.get(spec.format)) is None:
        raise InvalidSpec("format", f"format: {spec.format} is unknown, known are {', '.join(FORMATS)}")
    if row.codec is None:
        check_raw(spec)
    else:
        check_video(spec)
        open_encoder(_new_context(row.codec), spec)


def _works(name: str) -> bool:
    codec = FORMATS[name].codec
    if codec is None:
        return True
    spec = OutputSpec(Path(), name, 64, 64, 1, Fraction(24))
    try:
        context = _new_context(codec)
        open_encoder(context, spec)
        packets = context.encode(av.VideoFrame(64, 64, "yuv420p")) + context.encode(None)
    except (EncodingError, av.FFmpegError):
        return False
    return len(packets) == 1


def _new_context(codec: str) -> VideoCodecContext:
    return cast(VideoCodecContext, av.CodecContext.create(find_encoder(codec), "w"))
