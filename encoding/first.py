"""The first picture of a file: decoded, or known to be the one that was decoded before."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import av

from encoding.base import OutputSpec
from encoding.errors import EncodingError, reason
from encoding.packets import Sample, add_copy

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

_SLICES = 8
"""That our pictures have, each of which a thread can decode."""


def open_unseen(file: str | BytesIO, form: str | None, streams: int = 1) -> InputContainer:
    """Open a file of ours with so many `streams`, pictures first, and decode none to learn what it holds.

    av would open a decoder and try it, before the check does that itself: here it finds none that it may use.
    `form`: av's name of an indexed form, which tells all that there is to know of a packet, and which it then
    need not find among the hundreds that it knows; None: it shall find and parse it.
    """
    options = {"probesize": "32"}  # one packet tells what is in it
    if form is not None:
        options["fflags"] = "+noparse+nofillin"
    each: list[Any] = [{"codec_whitelist": "none"}, {}][:streams]
    return av.open(file, "r", format=form, options=options, stream_options=each)


@dataclass(frozen=True, slots=True)
class FirstPicture:
    """The size that a decoder found, in pixels, and all that it was given to find it."""

    width: int
    height: int
    decoder: tuple[str, str, bytes]
    """Its name, the stream's tag, and its configuration (`avcC`, `hvcC` or `av1C`)."""
    sample: bytes
    """As it lies in the file."""


def first_picture(
    container: InputContainer, spec: OutputSpec, seen: FirstPicture | None = None
) -> FirstPicture:
    """The first picture of a file that `open_unseen` has opened, and that stands at its start.

    It is decoded, unless it and its decoder's configuration are byte for byte what `seen` was made of.

    Raises:
        EncodingError: it cannot be decoded, or the same configuration has another sample than `seen`.
        av.FFmpegError: it cannot be read.
    """
    stream = container.streams.video[0]
    packet = next(container.demux(stream))
    context, sample = stream.codec_context, bytes(packet)
    decoder = (context.name, context.codec_tag, context.extradata or b"")
    if seen is not None and seen.decoder == decoder:
        _check_same(sample, seen.sample, spec)
        return seen
    # Where every processor is busy with the next video, one thread is done before several have met.
    stream.thread_type = "SLICE"
    stream.thread_count = max(1, min(_SLICES, len(os.sched_getaffinity(0)) // 2))
    problem = f"{spec.path.name}: its first picture cannot be decoded"
    try:
        # Alone, and the end: a decoder that reorders would want two more.
        for frame in (*packet.decode(), *stream.decode(None)):
            return FirstPicture(frame.width, frame.height, decoder, sample)
    except av.FFmpegError as error:
        raise EncodingError(f"{problem}: {reason(error)}") from error
    raise EncodingError(problem)


def early_picture(stream: VideoStream, sample: Sample, spec: OutputSpec) -> FirstPicture:
    """The first picture of an MP4 that is still being made, from `stream`, of which `sample` is the first.

    It is decoded out of a file of its own, which the same muxer makes of the same encoder: until the end,
    the other one has no index.

    Raises:
        EncodingError, av.FFmpegError: as `first_picture`.
    """
    file = BytesIO()
    with av.open(file, "w", format="mp4") as made:
        made.mux_one(sample.packet(add_copy(made, stream), 1 / spec.fps))
    file.seek(0)
    with open_unseen(file, "mp4") as container:
        return first_picture(container, spec)


def _check_same(sample: bytes, seen: bytes, spec: OutputSpec) -> None:
    if sample == seen:
        return
    pairs = enumerate(zip(sample, seen, strict=False))
    place = next((at for at, (one, other) in pairs if one != other), min(len(sample), len(seen)))
    sizes = f"{len(sample)} bytes, {len(seen)} expected, alike up to byte {place}"
    raise EncodingError(f"{spec.path.name}: its first sample is not what was encoded ({sizes})")
