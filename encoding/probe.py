"""What this build of FFmpeg can really encode, tried before a job depends on it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import av.logging
from av.audio.codeccontext import AudioCodecContext
from av.video.codeccontext import VideoCodecContext

from encoding.base import AudioSpec, OutputSpec
from encoding.encoder import check_video, find_encoder, open_encoder
from encoding.errors import EncodingError, translate
from encoding.formats import FORMATS, codec_of
from encoding.sound import check_audio
from encoding.soundtrack import open_sound_encoder
from encoding.tensor import check_raw

_SIDE = 256
"""Of the picture that is tried: the encoders of cards take none that is much smaller."""

_COMMON = AudioSpec(48_000, 2)
"""Sound that every encoder takes."""


def available_formats() -> tuple[str, ...]:
    """The keys of `FORMATS` that can be made here: raw ones, and those for which an encoder works."""
    return tuple(name for name, row in FORMATS.items() if not row.codecs or available_codecs(name))


def available_sound_formats() -> tuple[str, ...]:
    """Those of `available_formats` that can be made with sound."""
    return tuple(name for name in available_formats() if _sounds(name))


def available_codecs(name: str) -> tuple[str, ...]:
    """The encoders of the format `name` that have encoded a small picture here."""
    return tuple(codec for codec in FORMATS[name].codecs if _works(name, codec))


def try_codec(name: str, codec: str) -> None:
    """Encode a small picture for the format `name` with the encoder `codec`.

    Raises:
        EncodingError: it does not work here; the message has FFmpeg's words.
    """
    spec = OutputSpec(Path(), name, _SIDE, _SIDE, 1, Fraction(24), codec=codec)
    with _listening() as said:
        try:
            context = _new_context(codec)
            open_encoder(context, spec)
            picture = av.VideoFrame(_SIDE, _SIDE, "yuv420p")
            picture.pts = 0
            packets = context.encode(picture) + context.encode(None)
        except (EncodingError, av.FFmpegError) as error:
            problem = str(translate(error, f"encoder {codec}"))
            raise EncodingError(
                " ".join((problem, *(f"({text.strip()})" for _, _, text in said[:1])))
            ) from error
    if len(packets) != 1:
        raise EncodingError(f"encoder {codec}: made {len(packets)} packets of one picture")


def try_sound(name: str, audio: AudioSpec) -> None:
    """Encode a moment of silence for the format `name`; nothing for one that holds raw samples.

    Raises:
        EncodingError: its encoder is missing, or does not work here, or refuses `audio`.
    """
    if (codec := FORMATS[name].audio_codec) is None:
        check_audio(audio)
        return
    context = _new_sound_context(codec)
    open_sound_encoder(context, audio)
    silence = av.AudioFrame(context.format, context.layout, context.frame_size)
    silence.sample_rate = context.sample_rate
    for plane in silence.planes:
        plane.update(bytes(plane.buffer_size))
    if not context.encode(silence) + context.encode(None):
        raise EncodingError(f"encoder {codec}: made nothing of a moment of silence")


def try_spec(spec: OutputSpec) -> None:
    """Open the encoder as the output will, and leave nothing.

    Raises:
        InvalidSpec, InvalidOption, EncoderMissing, EncodingError: what would refuse the output.
    """
    if (codec := codec_of(spec)) is None:
        check_raw(spec)
    else:
        check_video(spec, codec)
        open_encoder(_new_context(codec), spec)
    if spec.audio is not None:
        try_sound(spec.format, spec.audio)


@functools.cache  # each picture takes some milliseconds, or a session of a card
def _works(name: str, codec: str) -> bool:
    try:
        try_codec(name, codec)
    except EncodingError:
        return False
    return True


def _sounds(name: str) -> bool:
    try:
        try_sound(name, _COMMON)
    except (EncodingError, av.FFmpegError):
        return False
    return True


def _new_sound_context(codec: str) -> AudioCodecContext:
    return cast(AudioCodecContext, av.CodecContext.create(find_encoder(codec), "w"))


def _new_context(codec: str) -> VideoCodecContext:
    return cast(VideoCodecContext, av.CodecContext.create(find_encoder(codec), "w"))


@contextmanager
def _listening() -> Iterator[list[tuple[int, str, str]]]:
    """Level, part and text of what FFmpeg calls an error in the block, on this thread."""
    level, skip = av.logging.get_level(), av.logging.get_skip_repeated()
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture(local=True) as said:
            yield said
    finally:
        av.logging.set_level(level)
        av.logging.set_skip_repeated(skip)
