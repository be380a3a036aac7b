"""What is heard in a file, found by decoders that are not the code under test."""

from __future__ import annotations

import io
import subprocess
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import torch

Samples = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Heard:
    """The sound of a file. `seconds` is the length that the file says, None if it says none."""

    codec: str
    rate: int
    channels: int
    start: Fraction
    """When the first sample is heard, in seconds."""
    seconds: Fraction | None
    samples: Samples
    """(channels, N)."""


def listen(source: Path | bytes) -> Heard:
    """Decode the sound with FFmpeg's library."""
    with av.open(io.BytesIO(source) if isinstance(source, bytes) else str(source), "r") as container:
        stream = container.streams.audio[0]
        assert stream.time_base is not None
        frames = list(container.decode(stream))
        assert frames[0].pts is not None
        return Heard(
            codec=stream.codec_context.name,
            rate=stream.codec_context.sample_rate,
            channels=stream.codec_context.channels,
            start=frames[0].pts * Fraction(stream.time_base),
            seconds=None if stream.duration is None else stream.duration * Fraction(stream.time_base),
            samples=np.concatenate([frame.to_ndarray() for frame in frames], axis=1).astype(np.float32),
        )


def play(path: Path, rate: int, channels: int) -> Samples:
    """Decode the sound with FFmpeg's program, another build of it than the library's, at `rate`."""
    form = ["-f", "f32le", "-ar", str(rate), "-ac", str(channels)]
    command = ["ffmpeg", "-v", "error", "-i", str(path), *form, "-"]
    out = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(out, np.float32).reshape(-1, channels).T


def distance(heard: Samples, sound: torch.Tensor) -> float:
    """How far `heard` is from `sound`, both from their first sample on, over the power of `sound`."""
    count = min(heard.shape[1], sound.shape[1])
    wanted = sound[:, :count].numpy()
    return float(np.square(heard[:, :count] - wanted).sum() / np.square(wanted).sum())


def packets(path: Path) -> list[tuple[str, Fraction]]:
    """Kind and time of each packet, in the order in which they stand in the file."""
    with av.open(str(path)) as container:
        found = [packet for packet in container.demux() if packet.size > 0]
        ordered = sorted(found, key=lambda packet: packet.pos or 0)
        return [(packet.stream.type, (packet.dts or 0) * packet.time_base) for packet in ordered]
