"""The packets of a file once more, as a fragmented MP4 that plays while it is made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from io import BytesIO
from typing import TYPE_CHECKING

import av
from av.stream import Stream
from av.video.stream import VideoStream

from encoding.boxes import find
from encoding.packets import AnyPacket, Sample, add_copy

if TYPE_CHECKING:
    from av.audio.stream import AudioStream

_log = logging.getLogger(__name__)

_FRAGMENTED = "frag_custom+default_base_moof+skip_trailer"
_HEADER_FLAGS = f"{_FRAGMENTED}+delay_moov"
_AV1_PICTURE = b"\x2a\x01\x00"  # metadata: the muxer drops units that are less
_NAL_PICTURE = b"\0\0\0\1\x65"
_SOUND = b"\0"
_FRAGMENT = {
    "movflags": f"{_FRAGMENTED}+empty_moov+frag_discont",
    "use_editlist": "0",
    "avoid_negative_ts": "disabled",
}


class _Bytes:
    """A file that av can write to and not seek in."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)


@dataclass(slots=True)
class _Track:
    """One stream: what its samples are like, and those that wait to be sent."""

    template: Stream
    clock: Fraction
    """The unit of its times, in seconds."""
    first: Sample
    """Stands for the first one in the header: its times, and bytes that the muxer lets pass."""
    waiting: list[Sample] = field(default_factory=list)
    sent: int = 0

    def take(self, count: int) -> list[Sample]:
        """The next samples that wait, with times from 0 on, as fragments count them."""
        samples, self.waiting = self.waiting[:count], self.waiting[count:]
        self.sent += len(samples)
        began = self.first.dts
        return [replace(each, pts=each.pts - began, dts=each.dts - began) for each in samples]


class LiveStream:
    """Passes `ftyp` and `moov` to `send` when opened, and a `moof` with its `mdat` at each `flush`.

    What it has sent after any flush is a whole video: a fragment ends only where no earlier picture is
    missing. If `send` raises, the stream ends there; the file that it accompanies does not notice.

    Sound goes with the pictures that it is heard beside. Pictures never wait for sound that comes later:
    it then follows in fragments of its own, whose times say where it belongs.

    Note [One muxer a fragment]: av has no call to end a fragment, and FFmpeg's own rules end one only when
    the next packet comes, which would hold back the last frame of every chunk. So each fragment has a muxer
    of its own, told by `fragment_index` and `frag_discont` that others came before; its `ftyp` and `moov`
    are dropped. It shifts no times: they are those of the fragments already, which know none before 0.
    """

    def __init__(
        self, template: VideoStream, send: Callable[[bytes], None], sound: AudioStream | None = None
    ) -> None:
        self._send: Callable[[bytes], None] | None = send
        codec = template.codec_context
        # Reordered pictures are decoded this many frames before they are shown.
        self._delay = codec.reorder_depth
        picture = _AV1_PICTURE if codec.codec.canonical_name == "av1" else _NAL_PICTURE
        first = Sample(picture, 0, -self._delay, is_keyframe=True)
        self._tracks = [_Track(template, 1 / Fraction(codec.framerate), first)]
        """Pictures, and sound if there is any; none once they are abandoned."""
        if sound is not None:
            self._tracks.append(_sound_track(sound))
        # What the header promised: the encoder starts later when the whole video is shorter than its delay.
        self._shift: int | None = None
        self._fragments = 0
        self._pass_on(self._header)

    def add(self, packet: av.Packet[VideoStream]) -> None:
        """Take a packet as the encoder made it, before any muxer changes its time stamps."""
        if self._send is None or packet.pts is None or packet.dts is None:
            return
        if self._shift is None:
            self._shift = -self._delay - packet.dts
        sample = Sample(bytes(packet), packet.pts, packet.dts + self._shift, packet.is_keyframe)
        self._tracks[0].waiting.append(sample)

    def add_sound(self, packet: AnyPacket) -> None:
        """As `add`, of a stream that was opened with sound."""
        if self._send is not None:
            self._tracks[1].waiting.append(Sample.of(packet))

    def flush(self) -> None:
        """Send what can be shown as it stands."""
        if self._send is None:
            return
        whole = _whole(self._tracks[0])
        sounds = [len(track.waiting) for track in self._tracks[1:]]
        # Sound goes beside pictures, and alone once none of them waits.
        if whole > 0 or (any(sounds) and not self._tracks[0].waiting):
            self._pass_on(lambda: self._fragment([whole, *sounds]))

    def abandon(self) -> None:
        """Let go of the encoders. Idempotent."""
        self._send = None
        self._tracks.clear()

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
        """`ftyp` and `moov`, with the edit lists that first samples make necessary."""
        data = self._mux([[track.first] for track in self._tracks], {"movflags": _HEADER_FLAGS})
        return data[: _offset(data, b"moof")]

    def _fragment(self, counts: Sequence[int]) -> bytes:
        self._fragments += 1
        parts = [track.take(count) for track, count in zip(self._tracks, counts, strict=True)]
        options = {**_FRAGMENT, "fragment_index": str(self._fragments)}
        data = self._mux(parts, options)
        return data[_offset(data, b"moof") :]

    def _mux(self, parts: Sequence[Sequence[Sample]], options: dict[str, str]) -> bytes:
        """The bytes of a file with these samples, a list for each track."""
        file = _Bytes()
        with av.open(file, "w", format="mp4", container_options=options) as container:
            streams = [add_copy(container, track.template) for track in self._tracks]
            for track, stream, samples in zip(self._tracks, streams, parts, strict=True):
                for sample in samples:
                    container.mux_one(sample.packet(stream, track.clock))
        return bytes(file.data)


def _whole(pictures: _Track) -> int:
    """How many waiting pictures leave no gap: as many as their latest one says."""
    latest, whole = pictures.sent - 1, 0
    for count, sample in enumerate(pictures.waiting, start=1):
        latest = max(latest, sample.pts)
        if latest + 1 == pictures.sent + count:
            whole = count
    return whole


def _sound_track(template: AudioStream) -> _Track:
    """AAC begins one packet early: a decoder needs it to start, and nobody hears it."""
    context = template.codec_context
    size = context.frame_size
    first = Sample(_SOUND, -size, -size, is_keyframe=True, duration=size)
    return _Track(template, Fraction(1, context.sample_rate), first)


def _offset(data: bytes, kind: bytes) -> int:
    found = find(BytesIO(data), kind)
    assert found is not None, "the muxer has just written it"
    return found.start
