"""A finished video file, opened again and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
from av.stream import Discard

from encoding.base import AudioSpec, OutputSpec
from encoding.encoder import find_encoder
from encoding.errors import EncodingError
from encoding.first import FirstPicture, first_picture, open_unseen
from encoding.formats import codec_of
from encoding.index import picture_times
from encoding.packets import AnyPacket

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream


_SLACK = Fraction(5, 1000)
"""Seconds by which sound may miss a time: a WebM rounds to the millisecond."""
_OVERHANG = Fraction(20, 1000) + _SLACK
"""By which it may seem to end late: a packet of Opus, of which a WebM says aside what is not to be played."""


@dataclass(slots=True)
class _Found:
    """What a file holds."""

    times: list[int] = field(default_factory=list)
    """Of its pictures."""
    sound_end: Fraction = Fraction(0)
    """In seconds."""
    silence: tuple[Fraction, Fraction] | None = None
    """The first time of which there is no sound, and when it goes on, in seconds."""
    channels: int = 0
    """Of the first sound that was decoded."""


def check_video_file(path: Path, spec: OutputSpec, seen: FirstPicture | None = None) -> None:
    """Open a finished file and count.

    An MP4's index must stand in front and be that of the samples that follow: that finds a missing index,
    missing bytes and wrong times without a pass over the file. Of a WebM, which has no such index, every
    packet is read. Each picture must have its time, and the sound be there from the first to the last. The
    first picture is decoded, and the beginning of the sound, which finds a broken header; a picture that was
    `seen` while the file was made has to be the very same. To decode it all would cost about a third of the
    encoding time, to learn that the encoder works.

    Raises:
        EncodingError: it is not `spec`.
    """
    kinds = ["video"] if spec.audio is None else ["video", "audio"]
    indexed = spec.format == "mp4"
    with open_unseen(str(path), "mp4" if indexed else None, len(kinds)) as container:
        streams = [stream.type for stream in container.streams]
        if streams != kinds:
            raise EncodingError(f"{spec.path.name}: has streams of {streams}, {kinds} expected")
        _check_codec(container, spec)
        found = _Found(picture_times(container, path, spec)) if indexed else _Found()
        _read(container, found, container.streams.audio if indexed else tuple(container.streams))
        _check_pictures(first_picture(container, spec, seen), found, spec)
        if spec.audio is not None:
            _check_sound(found, spec, spec.audio)
        _check_times(container, found, spec)


def _check_codec(container: InputContainer, spec: OutputSpec) -> None:
    wanted = find_encoder(cast(str, codec_of(spec))).canonical_name
    is_one = container.streams.video[0].codec_context.codec.canonical_name
    if is_one != wanted:
        raise EncodingError(f"{spec.path.name}: its pictures are {is_one}, {wanted} expected")


def _read(container: InputContainer, found: _Found, streams: Sequence[Stream]) -> None:
    """Every packet of some streams, and back to the start; the bytes of other streams are passed over."""
    if not streams:  # and av goes on with the packet that it has read already
        return
    for stream in container.streams:
        stream.discard = Discard.default if stream in streams else Discard.all
    for packet in container.demux(*streams):
        if packet.pts is None:
            continue
        if packet.stream.type == "video":
            found.times.append(packet.pts)
        else:
            _hear(packet, found)
    for stream in container.streams:
        stream.discard = Discard.default
    container.seek(0)


def _hear(packet: AnyPacket, found: _Found) -> None:
    assert packet.pts is not None
    begin = packet.pts * packet.time_base
    if begin > found.sound_end + _SLACK and found.silence is None:
        found.silence = found.sound_end, begin
    end = begin + (packet.duration or 0) * packet.time_base
    found.sound_end = max(found.sound_end, end)
    if found.channels == 0:  # the first packet is only there to start the decoder
        frames = cast("list[av.AudioFrame]", packet.decode())
        found.channels = max((frame.layout.nb_channels for frame in frames), default=0)


def _check_pictures(first: FirstPicture, found: _Found, spec: OutputSpec) -> None:
    seen = (first.width, first.height, len(found.times), len(set(found.times)))
    wanted = (spec.width, spec.height, spec.num_frames, spec.num_frames)
    if seen != wanted or min(found.times) != 0:
        raise EncodingError(
            f"{spec.path.name}: width, height, frames and distinct times are {seen}, {wanted} expected"
        )


def _check_times(container: InputContainer, found: _Found, spec: OutputSpec) -> None:
    stream = container.streams.video[0]
    clock = stream.time_base
    assert clock is not None, "every track has one"
    step = 1 / (spec.fps * Fraction(clock))
    units, parts = step.numerator, step.denominator  # fractions would take most of the check
    slack = 0 if spec.format == "mp4" else parts  # a WebM rounds to its clock, which is the millisecond
    for number, time in enumerate(sorted(found.times)):
        if abs(time * parts - number * units) > slack:
            shown = f"picture {number} is shown at {float(time * clock):.6f} s"
            raise EncodingError(f"{spec.path.name}: {shown}, {float(number / spec.fps):.6f} s expected")
    if spec.format == "mp4" and (lasts := (stream.duration or 0) * clock) != spec.num_frames / spec.fps:
        wanted = f"{float(spec.num_frames / spec.fps):.6f} s expected"  # players stop there
        raise EncodingError(f"{spec.path.name}: its pictures last {float(lasts):.6f} s, {wanted}")


def _check_sound(found: _Found, spec: OutputSpec, audio: AudioSpec) -> None:
    if found.channels != audio.channels:
        channels = f"{found.channels} channels of sound, {audio.channels} expected"
        raise EncodingError(f"{spec.path.name}: has {channels}")
    if found.silence is not None:
        gap = " to ".join(f"{float(time):.3f}" for time in found.silence)
        raise EncodingError(f"{spec.path.name}: there is no sound from {gap} s")
    seconds = spec.num_frames / spec.fps
    if not -_SLACK <= found.sound_end - seconds <= _OVERHANG:
        lasts = f"{float(found.sound_end):.3f} s, and the pictures {float(seconds):.3f} s"
        raise EncodingError(f"{spec.path.name}: the sound lasts {lasts}")
