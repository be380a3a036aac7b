"""Video files, encoded chunk by chunk: MP4 with H.264, HEVC or AV1, and WebM with VP9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import av
from av.container import OutputContainer
from av.video.stream import VideoStream

from encoding.base import OutputSpec
from encoding.check import check_video_file
from encoding.encoder import check_video, find_encoder, open_encoder
from encoding.first import FirstPicture, early_picture
from encoding.formats import codec_of
from encoding.frames import YUV420P, yuv420_planes
from encoding.interleave import Interleaver
from encoding.live import LiveStream
from encoding.packets import AnyPacket, Sample
from encoding.session import Session, start
from encoding.soundtrack import SoundTrack, add_sound_stream, sound_rate

if TYPE_CHECKING:
    import torch

    from encoding.formats import Live

_BUFFER_BYTES = 2**20
"""How much av gathers before it hands bytes to Python."""
_REPEATABLE = {"fflags": "bitexact"}
"""No random ids and no version of the library in the file."""


def open_mp4(spec: OutputSpec, live: Live | None = None) -> Session:
    """An MP4 file with its index in front; with `live`, the same packets also as a fragmented stream.

    Raises:
        EncodingError: what the encoder or the folder refuses.
    """
    check_video(spec, cast(str, codec_of(spec)))
    return start(spec, lambda file: VideoWriter(spec, file, live))


def open_webm(spec: OutputSpec, live: Live | None = None) -> Session:
    """A VP9 file. `live` has no use here: `formats.open_sink` refuses it."""
    check_video(spec, cast(str, codec_of(spec)))
    return start(spec, lambda file: VideoWriter(spec, file))


def _mp4_options(spec: OutputSpec) -> dict[str, str]:
    """Durations without rounding, and room for the index before the pictures: no second pass to start fast.

    A frame takes at most 49 bytes of it (stts 8, ctts 8, stss 4, stsz 4, stsc 12, co64 8, sdtp 1), and a
    packet of sound 32.
    """
    ticks = spec.fps.numerator  # of which a frame lasts a whole number; a millisecond at most
    room = 2048 + 64 * spec.num_frames
    if spec.audio is not None:
        rate = sound_rate("aac", spec.audio.sample_rate)
        room += 2048 + 32 * (spec.samples(rate) // 1024 + 3)
    return {"movie_timescale": str(ticks * -(-1000 // ticks)), "moov_size": str(room)}


class VideoWriter:
    """Encodes packed YUV frames into `file`, a container of the format's own kind."""

    packing = YUV420P

    def __init__(self, spec: OutputSpec, file: BinaryIO, live: Live | None = None) -> None:
        codec = find_encoder(cast(str, codec_of(spec)))
        options = _REPEATABLE | (_mp4_options(spec) if spec.format == "mp4" else {})
        container = av.open(
            file, "w", format=spec.format, container_options=options, buffer_size=_BUFFER_BYTES
        )
        stream = cast(VideoStream, container.add_stream(codec.name, rate=spec.fps))
        open_encoder(stream.codec_context, spec)
        track = SoundTrack(add_sound_stream(container, spec.audio), spec) if spec.audio is not None else None
        container.start_encoding()
        self._spec = spec
        self._added = 0
        self._container: OutputContainer | None = container
        self._stream: VideoStream | None = stream
        self._sound = (
            Interleaver(track, 1 / spec.fps, self._mux, self._hear, spec.path.parent) if track else None
        )
        self._live = LiveStream(stream, live, track.stream if track else None) if live is not None else None
        self._first: Sample | FirstPicture | None = None
        """Of an MP4: its first sample, until that was decoded."""

    def add(self, frame: torch.Tensor) -> None:
        planes = yuv420_planes(frame, self._spec.width, self._spec.height)
        # By way of numpy: torch calls page-locked memory a device of its own.
        picture = av.VideoFrame.from_dlpack(tuple(plane.numpy() for plane in planes), format="yuv420p")
        picture.pts = self._added
        self._added += 1
        for _ in self._take(picture):
            pass

    def add_sound(self, samples: torch.Tensor) -> Iterator[None]:
        assert self._sound is not None, "the session takes no sound that was not announced"
        assert self._stream is not None
        yield from self._sound.begin(samples, self._stream)

    def end_chunk(self) -> None:
        if self._live is not None:
            self._live.flush()
        # While the next frames are made, if there are any: at the end, somebody waits for the file.
        if isinstance(self._first, Sample) and self._added < self._spec.num_frames:
            self._first = self._look(self._first)

    def drain(self) -> Iterator[None]:
        yield from self._take(None)
        if self._sound is not None:
            yield from self._sound.end()
        self.end_chunk()

    def close(self) -> None:
        assert self._container is not None
        self._container.close()

    def check(self, path: Path) -> None:
        seen = self._first if isinstance(self._first, FirstPicture) else None
        check_video_file(path, self._spec, seen)

    def abandon(self) -> None:
        if self._live is not None:
            self._live.abandon()
        if self._sound is not None:
            self._sound.abandon()
        if self._container is not None:
            self._container.close()
        self._container = self._stream = self._first = None

    def _take(self, picture: av.VideoFrame | None) -> Iterator[None]:
        """Encode the next picture, or the last ones if None, and pass on what comes of it."""
        assert self._stream is not None
        for packet in self._stream.codec_context.encode_lazy(picture):
            packet.stream, packet.duration = self._stream, 1
            if self._first is None and self._spec.format == "mp4":
                self._first = Sample.of(packet)
            if self._live is not None:
                self._live.add(packet)
            if self._sound is not None:
                yield from self._sound.add(packet)
            else:
                self._mux(packet)
            yield

    def _look(self, first: Sample) -> FirstPicture:
        assert self._stream is not None
        return early_picture(self._stream, first, self._spec)

    def _hear(self, packet: AnyPacket) -> None:
        if self._live is not None:
            self._live.add_sound(packet)

    def _mux(self, packet: AnyPacket) -> None:
        assert self._container is not None
        self._container.mux_one(packet)
