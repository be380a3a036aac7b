"""A finished video file, opened again and counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

import av
from av.stream import Discard

from encoding.base import AudioSpec, OutputSpec
from encoding.boxes import boxes, delays
from encoding.errors import EncodingError
from encoding.first import FirstPicture, first_picture, open_unseen
from encoding.packets import AnyPacket

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream


@dataclass(slots=True)
class _Found:
    """What a file holds."""

    times: list[int] = field(default_factory=list)
    """Of its pictures."""
    sound_end: Fraction = Fraction(0)
    """In seconds."""
    channels: int = 0
    """Of the first sound that was decoded."""


def check_video_file(path: Path, spec: OutputSpec, seen: FirstPicture | None = None) -> None:
    """Open a finished file and count.

    An MP4's index must stand in front and give every picture its time, and its samples must fill the media
    data without a gap: that finds a missing index, missing bytes and wrong times without a pass over the
    file. Of a WebM, which has no such index, every packet is read. The first picture is decoded, and the
    beginning of the sound, which finds a broken header; a picture that was `seen` while the file was made has
    to be the very same. To decode it all would cost about a third of the encoding time, to learn that the
    encoder works.

    Raises:
        EncodingError: it is not `spec`.
    """
    kinds = ["video"] if spec.audio is None else ["video", "audio"]
    indexed = spec.format == "mp4"
    with open_unseen(str(path), "mp4" if indexed else None, len(kinds)) as container:
        streams = [stream.type for stream in container.streams]
        if streams != kinds:
            raise EncodingError(f"{spec.path.name}: has streams of {streams}, {kinds} expected")
        found = _Found(_indexed(container, path, spec)) if indexed else _Found()
        _read(container, found, container.streams.audio if indexed else tuple(container.streams))
        _check_pictures(first_picture(container, spec, seen), found, spec)
        if spec.audio is not None:
            _check_sound(found, spec, spec.audio)
        if indexed:
            _check_times(container, found, spec)


def _indexed(container: InputContainer, path: Path, spec: OutputSpec) -> list[int]:
    """The pictures' times as an MP4's index has them."""
    pictures = [
        (entry.pos, entry.size, entry.timestamp) for entry in container.streams.video[0].index_entries
    ]
    sounds = [(entry.pos, entry.size, 0) for each in container.streams.audio for entry in each.index_entries]
    with path.open("rb") as file:
        parts = [box for box in boxes(file) if box.kind != b"free"]
        later = list(islice(delays(file), len(pictures) + 1))
    if [box.kind for box in parts] != [b"ftyp", b"moov", b"mdat"]:
        kinds = " ".join(box.kind.decode("latin-1") for box in parts)
        raise EncodingError(f"{spec.path.name}: consists of {kinds or 'nothing'}, ftyp moov mdat expected")
    media = parts[-1]
    end = media.contents
    for position, size, _ in sorted(pictures + sounds):
        if position != end:
            raise EncodingError(f"{spec.path.name}: a sample at byte {position}, {end} expected")
        end += size
    if end != media.end:
        raise EncodingError(f"{spec.path.name}: its samples end at byte {end}, its media data do not")
    if len(later) not in (0, len(pictures)):
        counts = (
            f"{len(pictures)} pictures, and delays for {'fewer' if len(later) < len(pictures) else 'more'}"
        )
        raise EncodingError(f"{spec.path.name}: its index has {counts}")
    delayed = zip(pictures, later or [0] * len(pictures), strict=True)
    return [time + delay for (_, _, time), delay in delayed]


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
    end = (packet.pts + (packet.duration or 0)) * packet.time_base
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
    clock = container.streams.video[0].time_base
    assert clock is not None, "every MP4 track has one"
    step = 1 / (spec.fps * Fraction(clock))
    units, parts = step.numerator, step.denominator  # fractions would take most of the check
    for number, time in enumerate(sorted(found.times)):
        if time * parts != number * units:
            shown = f"picture {number} is shown at {float(time * clock):.6f} s"
            raise EncodingError(f"{spec.path.name}: {shown}, {float(number / spec.fps):.6f} s expected")


def _check_sound(found: _Found, spec: OutputSpec, audio: AudioSpec) -> None:
    if found.channels != audio.channels:
        channels = f"{found.channels} channels of sound, {audio.channels} expected"
        raise EncodingError(f"{spec.path.name}: has {channels}")
    seconds = spec.num_frames / spec.fps
    if abs(found.sound_end - seconds) > 1 / spec.fps:
        lasts = f"{float(found.sound_end):.3f} s, and the pictures {float(seconds):.3f} s"
        raise EncodingError(f"{spec.path.name}: the sound lasts {lasts}")
