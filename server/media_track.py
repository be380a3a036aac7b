"""An untrusted sound on its way to a file: what it may be, and how it is written."""

from __future__ import annotations

import math
from fractions import Fraction

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
GAP = Fraction(1, 10)
"""Seconds without sound from which on it pauses; less is how files round their times."""
SAMPLE_BYTES = 4
"""Of a sample of one channel, a 32-bit float."""


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
        self._layout = "mono" if channels == 1 else "stereo"
        self._sample_bytes = SAMPLE_BYTES * min(channels, 2)
        self._left_out = 0
        self.samples = 0
        self.audible = False
        self.rate = rate
        self._max_seconds, self._output = max_seconds, output
        self._kind: tuple[str, str, int] | None = None
        self._resampler = av.AudioResampler("flt", self._layout, rate)
        self._written = output.add_stream("pcm_f32le", rate=rate, layout=self._layout)

    @property
    def seconds(self) -> Fraction:
        """The place of what comes next; below 0 it is left out."""
        return Fraction(self.samples - self._left_out, self.rate)

    def skip(self, late: Fraction) -> None:
        """Have what comes next `late` seconds later, after silence; below 0 earlier, without its start."""
        silent = round(late * self.rate) - self._left_out
        self._left_out = max(-silent, 0)
        while silent > 0:
            part = min(silent, self.rate)
            self._add(self._piece(bytes(part * self._sample_bytes)))
            silent -= part

    def write(self, frame: av.AudioFrame) -> None:
        """The next stretch of it."""
        kind = frame.format.name, frame.layout.name, frame.sample_rate
        if kind != (self._kind or kind):
            raise Refused("changes its rate or its channels")
        self._kind = kind
        for piece in self._resampler.resample(frame):
            left_out = min(self._left_out, piece.samples)
            self._left_out -= left_out
            if left_out:
                kept = slice(left_out * self._sample_bytes, piece.samples * self._sample_bytes)
                piece = self._piece(bytes(piece.planes[0])[kept])
            if piece.samples:
                self._add(piece)

    def end(self) -> None:
        """Write what the encoder still holds."""
        self._output.mux(self._written.encode(None))

    def _add(self, piece: av.AudioFrame) -> None:
        self.samples += piece.samples
        self.audible = _peak(piece) >= AUDIBLE or self.audible
        if self.samples > self._max_seconds * self.rate:
            raise too_long(self._max_seconds)
        piece.pts = None
        self._output.mux(self._written.encode(piece))

    def _piece(self, data: bytes) -> av.AudioFrame:
        piece = av.AudioFrame("flt", self._layout, len(data) // self._sample_bytes)
        piece.sample_rate = self.rate
        if data:
            piece.planes[0].update(data)
        return piece


class Heard:
    """A sound on its way to its track, where each sample stands at its time: behind the first picture of a
    film, or behind the sound's own beginning.
    """

    def __init__(self, track: Track | None) -> None:
        self._track = track
        self._origin: Fraction | None = None
        self._started = False
        self._early: list[av.AudioFrame] = []

    def begin(self, origin: Fraction) -> None:
        """What is heard at `origin` seconds is the track's beginning. All streams of the file are there."""
        self._origin = origin
        for frame in self._early:
            self.hear(frame)
        self._early.clear()

    def hear(self, frame: av.AudioFrame) -> None:
        """Write it, or keep it until the track's beginning is known."""
        if self._origin is None:
            self._early.append(frame)
        elif self._track is not None:
            if frame.pts is not None and frame.time_base is not None:
                late = frame.pts * frame.time_base - self._origin - self._track.seconds
                if late > GAP or not self._started:
                    self._track.skip(late)
            self._started = True
            self._track.write(frame)
