"""Video files, encoded chunk by chunk: MP4 with H.264, HEVC or AV1, and WebM with VP9."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import av
from av.container import OutputContainer
from av.video.stream import VideoStream

from encoding.base import OutputSpec
from encoding.encoder import check_video, find_encoder, open_encoder
from encoding.errors import EncodingError
from encoding.formats import codec_of
from encoding.frames import YUV420P, yuv420_planes
from encoding.live import LiveStream
from encoding.session import Session, start

if TYPE_CHECKING:
    import torch

    from encoding.formats import Live

_BUFFER_BYTES = 2**20
"""How much av gathers before it hands bytes to Python."""
_CHECK_THREADS = 8
_BY_SLICES = {"threads": str(_CHECK_THREADS), "thread_type": "slice"}
_REPEATABLE = {"fflags": "bitexact"}
"""No random ids and no version of the library in the file."""


def open_mp4(spec: OutputSpec, live: Live | None = None) -> Session:
    """An MP4 file with its index in front; with `live`, the same packets also as a fragmented stream.

    Raises:
        EncodingError: what the encoder or the folder refuses.
    """
    check_video(spec, cast(str, codec_of(spec)))
    options = _mp4_options(spec)
    return start(spec, lambda file: VideoWriter(spec, file, options, live))


def open_webm(spec: OutputSpec, live: Live | None = None) -> Session:
    """A VP9 file. `live` has no use here: `formats.open_sink` refuses it."""
    check_video(spec, cast(str, codec_of(spec)))
    return start(spec, lambda file: VideoWriter(spec, file, {}))


def _mp4_options(spec: OutputSpec) -> dict[str, str]:
    """Durations without rounding, and room for the index before the pictures: no second pass to start fast.

    A frame takes at most 49 bytes of it (stts 8, ctts 8, stss 4, stsz 4, stsc 12, co64 8, sdtp 1).
    """
    ticks = spec.fps.numerator  # of which a frame lasts a whole number; a millisecond at most
    return {
        "movie_timescale": str(ticks * -(-1000 // ticks)),
        "moov_size": str(2048 + 64 * spec.num_frames),
    }


class VideoWriter:
    """Encodes packed YUV frames into `file`, a container of the format's own kind."""

    packing = YUV420P

    def __init__(
        self, spec: OutputSpec, file: BinaryIO, options: dict[str, str], live: Live | None = None
    ) -> None:
        codec = find_encoder(cast(str, codec_of(spec)))
        container = av.open(
            file, "w", format=spec.format, container_options=options | _REPEATABLE, buffer_size=_BUFFER_BYTES
        )
        stream = cast(VideoStream, container.add_stream(codec.name, rate=spec.fps))
        open_encoder(stream.codec_context, spec)
        container.start_encoding()
        self._spec = spec
        self._added = 0
        self._container: OutputContainer | None = container
        self._stream: VideoStream | None = stream
        self._live = LiveStream(stream, live) if live is not None else None

    def add(self, frame: torch.Tensor) -> None:
        planes = yuv420_planes(frame, self._spec.width, self._spec.height)
        # By way of numpy: torch calls page-locked memory a device of its own.
        picture = av.VideoFrame.from_dlpack(tuple(plane.numpy() for plane in planes), format="yuv420p")
        picture.pts = self._added
        self._added += 1
        for packet in self._encode(picture):
            self._mux(packet)

    def add_sound(self, samples: torch.Tensor) -> Iterator[None]:
        raise AssertionError("refused when it was opened")

    def end_chunk(self) -> None:
        if self._live is not None:
            self._live.flush()

    def drain(self) -> Iterator[None]:
        for packet in self._encode(None):
            self._mux(packet)
            yield
        self.end_chunk()

    def close(self) -> None:
        assert self._container is not None
        self._container.close()

    def check(self, path: Path) -> None:
        check_video_file(path, self._spec)

    def abandon(self) -> None:
        if self._live is not None:
            self._live.abandon()
        if self._container is not None:
            self._container.close()
        self._container = self._stream = None

    def _encode(self, picture: av.VideoFrame | None) -> Iterator[av.Packet[VideoStream]]:
        assert self._stream is not None
        yield from self._stream.codec_context.encode_lazy(picture)

    def _mux(self, packet: av.Packet[VideoStream]) -> None:
        assert self._container is not None
        assert self._stream is not None
        packet.stream, packet.duration = self._stream, 1
        if self._live is not None:
            self._live.add(packet)
        self._container.mux_one(packet)


def check_video_file(path: Path, spec: OutputSpec) -> None:
    """Open a finished file and count.

    Every packet is read, which finds a missing index, missing bytes and wrong times at the cost of one pass
    over the file; only the first picture is decoded, which finds a broken header. To decode them all would
    cost about a third of the encoding time, to learn that the encoder works.

    Raises:
        EncodingError: it is not `spec`.
    """
    # One packet tells the format; pictures are decoded by as many threads as their slices have use for.
    each: list[Any] = [_BY_SLICES]
    with av.open(str(path), options={"probesize": "32"}, stream_options=each) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.thread_count = "SLICE", _CHECK_THREADS
        times = sorted(packet.pts for packet in container.demux(stream) if packet.pts is not None)
        container.seek(0)
        first = next(container.decode(stream))
        found = (first.width, first.height, len(times), len(set(times)))
    wanted = (spec.width, spec.height, spec.num_frames, spec.num_frames)
    if found != wanted or times[0] != 0:
        raise EncodingError(
            f"{spec.path.name}: width, height, frames and distinct times are {found}, {wanted} expected"
        )
