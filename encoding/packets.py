"""Encoded packets that outlive their encoder's call: copied, and made again for another container."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import av
from av.container import OutputContainer
from av.stream import Stream
from av.video.stream import VideoStream

AnyPacket: TypeAlias = "av.Packet[Any]"
"""Of pictures or of sound."""

_IN_MEMORY = 8 * 2**20
"""Bytes of packets that wait in memory; more of them wait on the disk."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One packet; times in units of its stream's clock."""

    data: bytes
    pts: int
    dts: int
    is_keyframe: bool
    duration: int = 1

    @classmethod
    def of(cls, packet: AnyPacket) -> Sample:
        """A copy of a packet that an encoder made."""
        assert packet.pts is not None, "encoders tell their packets' times"
        assert packet.dts is not None, "encoders tell their packets' times"
        return cls(bytes(packet), packet.pts, packet.dts, packet.is_keyframe, packet.duration or 1)

    def packet(self, stream: Stream, clock: Fraction) -> AnyPacket:
        """It, for `stream`, with its times in units of `clock` seconds."""
        packet = av.Packet(self.data) if self.data else av.Packet()
        packet.stream, packet.time_base = stream, clock
        packet.pts, packet.dts, packet.duration = self.pts, self.dts, self.duration
        packet.is_keyframe = self.is_keyframe
        return packet


def add_copy(container: OutputContainer, template: Stream) -> Stream:
    """A stream of `container` for packets of `template`'s encoder, by the same name in an MP4."""
    stream = container.add_stream_from_template(template)
    if isinstance(template, VideoStream):
        stream.codec_context.codec_tag = template.codec_context.codec_tag
    return stream


class Spool:
    """Samples that wait, in order; beyond a few megabytes in a file without a name in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115 `close` closes it
        self._waiting: list[tuple[int, Sample]] = []
        """Their sizes, and they without their data."""

    def add(self, sample: Sample) -> None:
        self._file.write(sample.data)
        self._waiting.append((len(sample.data), replace(sample, data=b"")))

    def take(self) -> Iterator[Sample]:
        """All of them; nothing waits afterwards, and nothing can be added."""
        self._file.seek(0)
        for size, sample in self._waiting:
            yield replace(sample, data=self._file.read(size))
        self.close()

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        self._waiting.clear()
        self._file.close()
