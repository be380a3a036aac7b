"""A finished video file, opened again and counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import av

from encoding.base import AudioSpec, OutputSpec
from encoding.errors import EncodingError
from encoding.packets import AnyPacket

if TYPE_CHECKING:
    from av.container import InputContainer

_THREADS = 8
_BY_SLICES = {"threads": str(_THREADS), "thread_type": "slice"}


@dataclass(slots=True)
class _Found:
    """What the packets of a file say."""

    times: list[int] = field(default_factory=list)
    """Of its pictures."""
    sound_end: Fraction = Fraction(0)
    """In seconds."""
    channels: int = 0
    """Of the first sound that was decoded."""


def check_video_file(path: Path, spec: OutputSpec) -> None:
    """Open a finished file and count.

    Every packet is read, which finds a missing index, missing bytes and wrong times at the cost of one pass
    over the file; only the first picture is decoded, and the beginning of the sound, which finds a broken
    header. To decode it all would cost about a third of the encoding time, to learn that the encoder works.

    Raises:
        EncodingError: it is not `spec`.
    """
    kinds = ["video"] if spec.audio is None else ["video", "audio"]
    # One packet tells the format; pictures are decoded by as many threads as their slices have use for.
    each: list[Any] = [_BY_SLICES, {}][: len(kinds)]
    with av.open(str(path), options={"probesize": "32"}, stream_options=each) as container:
        streams = [stream.type for stream in container.streams]
        if streams != kinds:
            raise EncodingError(f"{spec.path.name}: has streams of {streams}, {kinds} expected")
        found = _read(container)
        _check_pictures(container, found, spec)
        if spec.audio is not None:
            _check_sound(found, spec, spec.audio)


def _read(container: InputContainer) -> _Found:
    found = _Found()
    for packet in container.demux():
        if packet.pts is None:
            continue
        if packet.stream.type == "video":
            found.times.append(packet.pts)
        else:
            _hear(packet, found)
    return found


def _hear(packet: AnyPacket, found: _Found) -> None:
    assert packet.pts is not None
    end = (packet.pts + (packet.duration or 0)) * packet.time_base
    found.sound_end = max(found.sound_end, end)
    if found.channels == 0:  # the first packet is only there to start the decoder
        frames = cast("list[av.AudioFrame]", packet.decode())
        found.channels = max((frame.layout.nb_channels for frame in frames), default=0)


def _check_pictures(container: InputContainer, found: _Found, spec: OutputSpec) -> None:
    stream = container.streams.video[0]
    stream.thread_type, stream.thread_count = "SLICE", _THREADS
    container.seek(0)
    first = next(container.decode(stream))
    seen = (first.width, first.height, len(found.times), len(set(found.times)))
    wanted = (spec.width, spec.height, spec.num_frames, spec.num_frames)
    if seen != wanted or min(found.times) != 0:
        raise EncodingError(
            f"{spec.path.name}: width, height, frames and distinct times are {seen}, {wanted} expected"
        )


def _check_sound(found: _Found, spec: OutputSpec, audio: AudioSpec) -> None:
    if found.channels != audio.channels:
        channels = f"{found.channels} channels of sound, {audio.channels} expected"
        raise EncodingError(f"{spec.path.name}: has {channels}")
    seconds = spec.num_frames / spec.fps
    if abs(found.sound_end - seconds) > 1 / spec.fps:
        lasts = f"{float(found.sound_end):.3f} s, and the pictures {float(seconds):.3f} s"
        raise EncodingError(f"{spec.path.name}: the sound lasts {lasts}")
