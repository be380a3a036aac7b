"""Packets of pictures and of sound in the order of time, whenever the sound comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from encoding.packets import AnyPacket, Sample, Spool
from encoding.soundtrack import SoundTrack

if TYPE_CHECKING:
    import torch
    from av.stream import Stream


class Interleaver:
    """Passes pictures to `mux` with the sound that is due by then; before it has come, they wait.

    What waits is encoded, and beyond a few megabytes it waits on the disk, in a file without a name in
    `folder`. `hear` sees each packet of sound when it is made. Each step of an iteration is short.
    """

    def __init__(
        self,
        track: SoundTrack,
        clock: Fraction,
        mux: Callable[[AnyPacket], None],
        hear: Callable[[AnyPacket], None],
        folder: Path,
    ) -> None:
        """`clock` is the unit of the pictures' times, in seconds."""
        self._track = track
        self._clock = clock
        self._mux = mux
        self._hear = hear
        self._spool = Spool(folder)

    def add(self, packet: AnyPacket) -> Iterator[None]:
        """The next picture as it was encoded."""
        if self._track.begun:
            yield from self._pass(packet)
        else:
            self._spool.add(Sample.of(packet))

    def begin(self, samples: torch.Tensor, stream: Stream) -> Iterator[None]:
        """The sound is there, float32 (channels, N): pass what waited for it, as packets of `stream`."""
        self._track.begin(samples)
        for sample in self._spool.take():
            yield from self._pass(sample.packet(stream, self._clock))

    def end(self) -> Iterator[None]:
        """The last picture was added: pass what is left of the sound."""
        yield from self._sound(None)

    def abandon(self) -> None:
        """Let go of the encoder and of what waits. Idempotent."""
        self._track.abandon()
        self._spool.close()

    def _pass(self, packet: AnyPacket) -> Iterator[None]:
        assert packet.pts is not None, "encoders tell their packets' times"
        # Until this picture is over, not until it is decoded: a live stream's fragment may end with it.
        yield from self._sound((packet.pts + 1) * self._clock)
        self._mux(packet)
        yield

    def _sound(self, seconds: Fraction | None) -> Iterator[None]:
        for packet in self._track.until(seconds):
            self._hear(packet)
            self._mux(packet)
            yield
