"""An untrusted sound on its way to a file: what it may be, and how it is written."""

from __future__ import annotations

import math

import av
from av.audio.stream import AudioStream
from av.container import OutputContainer

from server.forked import Refused
from server.media_bounds import AUDIO_CODECS, check_codec, check_length, too_long

RATES = range(8_000, 192_001)
"""Samples a second."""
MAX_CHANNELS = 8
LEAST_S = 0.01
"""The shortest sound: resampling leaves nothing of a few samples."""
LOUDEST = 1e6
"""The highest peak, of 1 at full scale: files of floats can hold any number, and infinity."""
AUDIBLE = 1e-4
"""The least peak of a sound that is not silent, of 1 at full scale: -80 dB."""


def _peak(piece: av.AudioFrame) -> float:
    """Of a stretch of interleaved 32-bit floats.

    Raises:
        Refused: it holds what is no sample of a sound.
    """
    count = piece.samples * len(piece.layout.channels)
    values = memoryview(bytes(piece.planes[0])).cast("f")[:count]
    peak = max(max(values, default=0.0), -min(values, default=0.0))
    if not math.isfinite(sum(values)) or peak > LOUDEST:  # a NaN hides from max and min
        raise Refused("holds samples that are no finite numbers near [-1, 1]")
    return peak


class Track:
    """A sound as 32-bit floats, mono or stereo, at its own rate, in a file that is being written.

    Raises:
        Refused: of a kind that is not taken or that changes, longer than `max_seconds`, or with samples that
            are none; when made, and from `write`.
    """

    def __init__(self, output: OutputContainer, stream: AudioStream, max_seconds: float) -> None:
        check_codec(stream, AUDIO_CODECS)
        rate, channels = stream.codec_context.sample_rate, stream.codec_context.channels
        if rate not in RATES or not 1 <= channels <= MAX_CHANNELS:
            raise Refused(f"has {channels} channels of {rate} samples a second; that is not taken")
        check_length(stream, max_seconds)
        layout = "mono" if channels == 1 else "stereo"
        self.samples = 0
        self.audible = False
        self.rate = rate
        self._max_seconds, self._output = max_seconds, output
        self._kind: tuple[str, str, int] | None = None
        self._resampler = av.AudioResampler("flt", layout, rate)
        self._written = output.add_stream("pcm_f32le", rate=rate, layout=layout)

    def write(self, frame: av.AudioFrame) -> None:
        """The next stretch of it."""
        kind = frame.format.name, frame.layout.name, frame.sample_rate
        if kind != (self._kind or kind):
            raise Refused("changes its rate or its channels")
        self._kind = kind
        for piece in self._resampler.resample(frame):
            self.samples += piece.samples
            self.audible = _peak(piece) >= AUDIBLE or self.audible
            if self.samples > self._max_seconds * self.rate:
                raise too_long(self._max_seconds)
            piece.pts = None
            self._output.mux(self._written.encode(piece))

    def end(self) -> None:
        """Write what the encoder still holds."""
        self._output.mux(self._written.encode(None))
