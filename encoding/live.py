"""The packets of a file once more, as a fragmented MP4 that plays while it is made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import av
from av.container import OutputContainer
from av.stream import Stream
from av.video.stream import VideoStream

_log = logging.getLogger(__name__)

_FRAGMENTED = "frag_custom+default_base_moof+skip_trailer"
_HEADER_FLAGS = f"{_FRAGMENTED}+delay_moov"
_AV1_PICTURE = b"\x2a\x01\x00"  # metadata: the muxer drops units that are less
_NAL_PICTURE = b"\0\0\0\1\x65"
_FRAGMENT_FLAGS = f"{_FRAGMENTED}+empty_moov+frag_discont"


@dataclass(frozen=True, slots=True)
class _Sample:
    data: bytes
    pts: int
    dts: int
    is_keyframe: bool


class _Bytes:
    """A file that av can write to and not seek in."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


class LiveStream:
    """Passes `ftyp` and `moov` to `send` when opened, and a `moof` with its `mdat` at each `flush`.

    What it has sent after any flush is a whole video: a fragment ends only where no earlier picture is
    missing. If `send` raises, the stream ends there; the file that it accompanies does not notice.

    Note [One muxer a fragment]: av has no call to end a fragment, and FFmpeg's own rules end one only when
    the next packet comes, which would hold back the last frame of every chunk. So each fragment has a muxer
    of its own, told by `fragment_index` and `frag_discont` that others came before; its `ftyp` and `moov`
    are dropped. An empty packet at the first time stamp of the video tells it where time began.
    """

    def __init__(self, template: VideoStream, send: Callable[[bytes], None]) -> None:
        self._template: VideoStream | None = template
        self._send: Callable[[bytes], None] | None = send
        self._time_base = Fraction(1) / template.codec_context.framerate
        # Reordered pictures are decoded this many frames before they are shown.
        self._delay = template.codec_context.reorder_depth
        # What the header promised: the encoder starts later when the whole video is shorter than its delay.
        self._shift: int | None = None
        self._waiting: list[_Sample] = []
        self._sent = 0
        self._fragments = 0
        self._pass_on(self._header)

    def add(self, packet: av.Packet[VideoStream]) -> None:
        """Take a packet as the encoder made it, before any muxer changes its time stamps."""
        if self._send is None or packet.pts is None or packet.dts is None:
            return
        if self._shift is None:
            self._shift = -self._delay - packet.dts
        self._waiting.append(_Sample(bytes(packet), packet.pts, packet.dts + self._shift, packet.is_keyframe))

    def flush(self) -> None:
        """Send what can be shown as it stands."""
        whole = self._whole()
        if whole > 0 and self._send is not None:
            samples, self._waiting = self._waiting[:whole], self._waiting[whole:]
            self._pass_on(lambda: self._fragment(samples))
            self._sent += whole

    def abandon(self) -> None:
        """Let go of the encoder. Idempotent."""
        self._template = self._send = None
        self._waiting.clear()

    def _whole(self) -> int:
        """How many waiting packets leave no gap: as many as their latest picture says."""
        latest, whole = self._sent - 1, 0
        for count, sample in enumerate(self._waiting, start=1):
            latest = max(latest, sample.pts)
            if latest + 1 == self._sent + count:
                whole = count
        return whole

    def _pass_on(self, make: Callable[[], bytes]) -> None:
        if self._send is None:
            return
        try:
            self._send(make())
        except Exception as error:  # noqa: BLE001 a viewer's trouble is no reason to lose the file
            told = {"count": self._fragments, "error": type(error).__name__}
            _log.warning("live stream ended early", extra=told)
            self.abandon()

    def _header(self) -> bytes:
        """`ftyp` and `moov`, with the edit list that a first sample makes necessary."""
        assert self._template is not None, "an abandoned stream has no header"
        av1 = self._template.codec_context.codec.canonical_name == "av1"
        first = _Sample(_AV1_PICTURE if av1 else _NAL_PICTURE, 0, -self._delay, is_keyframe=True)
        data = self._mux([first], {"movflags": _HEADER_FLAGS})
        return data[: _offset(data, b"moof")]

    def _fragment(self, samples: list[_Sample]) -> bytes:
        self._fragments += 1
        if self._fragments > 1:
            samples = [_Sample(b"", 0, -self._delay, is_keyframe=False), *samples]
        options = {"movflags": _FRAGMENT_FLAGS, "fragment_index": str(self._fragments)}
        data = self._mux(samples, options)
        return data[_offset(data, b"moof") :]

    def _mux(self, samples: list[_Sample], options: dict[str, str]) -> bytes:
        file = _Bytes()
        with av.open(file, "w", format="mp4", container_options=options) as container:
            stream = self._add_stream(container)
            for sample in samples:
                container.mux_one(self._packet(sample, stream))
        return bytes(file.data)

    def _add_stream(self, container: OutputContainer) -> Stream:
        assert self._template is not None, "a stream that was abandoned makes no fragments"
        stream = container.add_stream_from_template(self._template)
        stream.codec_context.codec_tag = self._template.codec_context.codec_tag
        return stream

    def _packet(self, sample: _Sample, stream: Stream) -> av.Packet[Stream]:
        packet = av.Packet(sample.data) if sample.data else av.Packet()
        packet.stream, packet.time_base = stream, self._time_base
        packet.pts, packet.dts, packet.duration = sample.pts, sample.dts, 1
        packet.is_keyframe = sample.is_keyframe
        return packet


def _boxes(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Kind and offset of each box at the top level."""
    offset = 0
    while offset < len(data):
        yield data[offset + 4 : offset + 8], offset
        offset += int.from_bytes(data[offset : offset + 4], "big")


def _offset(data: bytes, kind: bytes) -> int:
    return next(offset for found, offset in _boxes(data) if found == kind)
