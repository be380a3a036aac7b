"""The sound of a video file: its encoder, fed as far as the pictures have come."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import av
import numpy as np
import numpy.typing as npt
from av.audio.codeccontext import AudioCodecContext
from av.codec.context import Flags

from encoding.base import AudioSpec, OutputSpec
from encoding.encoder import find_encoder
from encoding.errors import EncodingError
from encoding.formats import FORMATS
from encoding.sound import check_audio

if TYPE_CHECKING:
    import torch
    from av.audio.stream import AudioStream
    from av.container import OutputContainer

Floats = npt.NDArray[np.float32]

_LAYOUTS: Mapping[int, str] = MappingProxyType({1: "mono", 2: "stereo"})
_RATES: Mapping[str, tuple[int, ...]] = MappingProxyType({"libopus": (48_000,)})
"""Samples a second that an encoder is given, where it would take others too: Opus always plays at this."""
_INPUTS: Mapping[str, str] = MappingProxyType({"aac": "fltp", "libopus": "flt"})
"""FFmpeg's name for how an encoder takes floats."""
_MAX_BITRATE = 96_000
"""Bits per second of a channel: where FFmpeg's own AAC encoder is hard to tell from its source."""
_BITS_PER_SAMPLE = 4
"""The most at low rates, of the six that AAC has room for."""
_OPTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType({"aac": {"aac_coder": "fast"}, "libopus": {}})
"""FFmpeg's own words for its coder: better and much faster than the default from 64 kbit/s on. Measured: the
first packet of a sweep is within 0.1 % of its power, with the default 8 %."""
_BLOCK = 1024
"""Samples that are handed over at once."""


def add_sound_stream(container: OutputContainer, audio: AudioSpec) -> AudioStream:
    """A stream for `audio` in a container that has not begun, its encoder open.

    Raises:
        EncodingError: what the encoder refuses.
    """
    name = FORMATS[container.format.name].audio_codec
    assert name is not None, "raw formats have no container"
    stream = cast("AudioStream", container.add_stream(name))
    open_sound_encoder(stream.codec_context, audio)
    return stream


def open_sound_encoder(context: AudioCodecContext, audio: AudioSpec) -> None:
    """Set rate, channels and quality of a new encoder, and open it.

    Raises:
        InvalidSpec: sound that no file here can hold.
        EncodingError: what it refuses.
    """
    check_audio(audio)
    name = context.name
    context.sample_rate = rate = sound_rate(name, audio.sample_rate)
    context.layout, context.format = _LAYOUTS[audio.channels], _INPUTS[name]
    context.time_base = Fraction(1, rate)
    context.bit_rate = audio.channels * min(_MAX_BITRATE, _BITS_PER_SAMPLE * rate)
    context.options = dict(_OPTIONS[name])
    context.flags |= Flags.bitexact.value  # else the first packet names the library's version
    try:
        context.open()
    except av.FFmpegError as error:
        asked = f"{audio.channels} channels of {rate} samples a second"
        raise EncodingError(f"{name} refuses {asked}: {error.strerror}") from error


def sound_rate(name: str, wanted: int) -> int:
    """What the encoder `name` is given for sound at `wanted` samples a second.

    The rate itself where it takes it, else the next above, else the highest.
    """
    rates = _RATES.get(name) or tuple(find_encoder(name).audio_rates or (wanted,))
    return min((rate for rate in rates if rate >= wanted), default=max(rates))


class SoundTrack:
    """Encodes the sound of `spec`, exactly as long as its pictures, on a stream whose encoder is open."""

    def __init__(self, stream: AudioStream, spec: OutputSpec) -> None:
        assert spec.audio is not None, "a silent output has no track"
        self.stream: AudioStream | None = stream
        self._context: AudioCodecContext | None = stream.codec_context
        self._audio = spec.audio
        self._wanted = spec.samples(self._context.sample_rate)
        self._next: av.Packet[AudioStream] | None = None
        self._coming: Iterator[av.Packet[AudioStream]] | None = None

    @property
    def begun(self) -> bool:
        """Whether the sound is there."""
        return self._coming is not None

    def begin(self, samples: torch.Tensor) -> None:
        """Take the sound, float32 (channels, N) in host memory; it is held until it is encoded."""
        self._coming = self._encoded(samples.numpy())

    def until(self, seconds: Fraction | None) -> Iterator[av.Packet[AudioStream]]:
        """The next packets that begin up to `seconds` after the first picture; all that are left if None."""
        while (packet := self._peek()) is not None and (seconds is None or _begin(packet) <= seconds):
            self._next = None
            yield packet

    def abandon(self) -> None:
        """Let go of the encoder. Idempotent."""
        self.stream = self._context = None
        self._coming = self._next = None

    def _peek(self) -> av.Packet[AudioStream] | None:
        assert self._coming is not None, "packets are asked for once the sound is there"
        if self._next is None:
            self._next = next(self._coming, None)
        return self._next

    def _encoded(self, samples: Floats) -> Iterator[av.Packet[AudioStream]]:
        for frame in chain(self._frames(samples), (None,)):
            assert self._context is not None, "nothing is asked of a track that was abandoned"
            for packet in self._context.encode(frame):
                packet.stream = self.stream
                yield packet

    def _frames(self, samples: Floats) -> Iterator[av.AudioFrame]:
        """The sound at the encoder's rate, as long as the pictures."""
        assert self._context is not None
        layout, rate = _LAYOUTS[self._audio.channels], self._context.sample_rate
        resampler = av.AudioResampler("fltp", layout, rate)
        made = 0
        for number, block in enumerate(_endless(samples)):
            given = _frame(block, layout, self._audio.sample_rate, number * _BLOCK)
            for piece in resampler.resample(given):
                kept = cast(Floats, piece.to_ndarray())[:, : self._wanted - made]
                yield _frame(kept, layout, rate, made)
                made += kept.shape[1]
                if made == self._wanted:
                    return


def _endless(samples: Floats) -> Iterator[Floats]:
    """The samples in blocks, and then silence. What is louder than full scale is cut, as players do."""
    channels, count = samples.shape
    for first in range(0, count, _BLOCK):
        block = np.zeros((channels, _BLOCK), np.float32)
        block[:, : count - first] = samples[:, first : first + _BLOCK].clip(-1, 1)
        yield block
    while True:
        yield np.zeros((channels, _BLOCK), np.float32)


def _frame(block: Floats, layout: str, rate: int, first: int) -> av.AudioFrame:
    """Samples from number `first` on, at `rate`."""
    frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(block), format="fltp", layout=layout)
    frame.sample_rate, frame.pts, frame.time_base = rate, first, Fraction(1, rate)
    return frame


def _begin(packet: av.Packet[AudioStream]) -> Fraction:
    assert packet.pts is not None, "encoders tell their packets' times"
    return packet.pts * packet.time_base
