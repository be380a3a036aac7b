"""A video encoder set up from an output's specification."""

from __future__ import annotations

from contextlib import nullcontext

import av
from av.codec.context import ThreadType
from av.video.codeccontext import VideoCodecContext

from encoding.base import OutputSpec
from encoding.errors import EncodingError, InvalidOption, InvalidSpec, translate
from encoding.options import CODECS
from encoding.priority import usual_priority
from encoding.sound import check_audio

_BT709 = 1
"""The same number for matrix, primaries and transfer (H.273)."""
_LIMITED = 1
_MAX_SIDE = 16_384
_MAX_TERM = 2**31 - 1
"""FFmpeg's rationals are of 32-bit integers."""


def find_encoder(name: str) -> av.Codec:
    """FFmpeg's encoder `name`.

    Raises:
        EncoderMissing: this build lacks it.
    """
    try:
        return av.Codec(name, "w")
    except ValueError as error:
        raise translate(error, f"encoder {name}") from error


def check_video(spec: OutputSpec, codec: str) -> None:
    """Raise InvalidSpec for what 4:2:0 video of `codec` cannot hold."""
    low = CODECS[codec].min_side
    for field, side in (("width", spec.width), ("height", spec.height)):
        if not low <= side <= _MAX_SIDE or side % 2:
            allowed = f"an even number from {low} to {_MAX_SIDE} is allowed with {codec}"
            raise InvalidSpec(field, f"{field}: {side} given, {allowed}")
    if spec.num_frames < 1:
        raise InvalidSpec("num_frames", f"num_frames: {spec.num_frames} given, 1 or more is allowed")
    if spec.fps <= 0 or max(spec.fps.numerator, spec.fps.denominator) > _MAX_TERM:
        raise InvalidSpec("fps", f"fps: {spec.fps} given, a positive fraction of 32-bit integers is allowed")
    if spec.audio is not None:
        check_audio(spec.audio)


def open_encoder(context: VideoCodecContext, spec: OutputSpec) -> None:
    """Set size, rate, colour and options of a new encoder, and open it.

    Raises:
        InvalidOption: an option that it does not know.
        EncodingError: what it refuses.
    """
    _configure(context, spec)
    try:
        with usual_priority() if CODECS[context.name].realtime else nullcontext():
            context.open()
    except av.FFmpegError as error:
        raise EncodingError(f"{context.name} refuses {_asked(spec)}: {error.strerror}") from error
    for option, value in context.options.items():  # what opening left over
        raise InvalidOption(option, f"{option}: {context.name} has no such option (value {value!r})")


def _configure(context: VideoCodecContext, spec: OutputSpec) -> None:
    context.width, context.height, context.pix_fmt = spec.width, spec.height, "yuv420p"
    context.framerate, context.time_base = spec.fps, 1 / spec.fps
    context.color_range = _LIMITED
    context.color_primaries = context.color_trc = context.colorspace = _BT709
    # Slices, not frames, side by side: frames in flight would hold up an abort, and delay a live stream.
    context.thread_type = ThreadType.SLICE
    codec = CODECS[context.name]
    if codec.tag is not None:
        context.codec_tag = codec.tag
    context.options = {**codec.always, **spec.codec_options}


def _asked(spec: OutputSpec) -> str:
    options = ", ".join(f"{name}={value}" for name, value in spec.codec_options.items())
    return f"{spec.width}x{spec.height} at {spec.fps} frames per second with {options or 'no options'}"
