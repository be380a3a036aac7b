"""Clips to encode, float (3, T, H, W), and what describes their files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import torch

from encoding.base import Artifact, AudioSpec, OutputSpec
from encoding.formats import FORMATS, open_sink
from encoding.options import resolve

SUFFIXES = [".mp4", ".webm", ".pt", ".safetensors"]
"""One of each format."""
FILM = Fraction(2997, 125)
"""23.976 frames per second, as a request writes it."""


def smooth(frames: int, height: int, width: int) -> torch.Tensor:
    """Gradients that move, within [-0.9, 0.9]."""
    now = torch.arange(frames)[:, None, None] / 5
    down = torch.linspace(-2, 2, height)[None, :, None]
    across = torch.linspace(-2, 2, width)[None, None, :]
    red = torch.sin(across + now + 0 * down)
    green = torch.cos(down - now + 0 * across)
    blue = torch.sin((across + down) / 2 + now)
    return 0.9 * torch.stack([red, green, blue])


def noise(frames: int, height: int, width: int, seed: int = 0) -> torch.Tensor:
    """Uniform in [-1, 1]: the encoder's worst case."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand((3, frames, height, width), generator=generator) * 2 - 1


def flat(colour: tuple[float, float, float], frames: int, height: int, width: int) -> torch.Tensor:
    return torch.tensor(colour, dtype=torch.float32)[:, None, None, None].expand(3, frames, height, width)


def chunks(clip: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    """`clip` in stretches of `size` frames."""
    for first in range(0, clip.shape[1], size):
        yield clip[:, first : first + size]


def describe(
    path: Path,
    clip: torch.Tensor,
    fps: Fraction = FILM,
    options: Mapping[str, str] | None = None,
    max_pending_bytes: int = 2**26,
    codec: str | None = None,
    audio: AudioSpec | None = None,
) -> OutputSpec:
    """The file at `path`, of the format its suffix says, with the service's options if none are given."""
    name = path.suffix.removeprefix(".")
    if options is None:
        options = resolve(codec or FORMATS[name].codec, None, present=False)
    _, frames, height, width = clip.shape
    return OutputSpec(path, name, width, height, frames, fps, options, max_pending_bytes, codec, audio)


def sweep(rate: int, channels: int, seconds: float) -> torch.Tensor:
    """Sound (channels, N) that is nowhere like itself: a tone that rises, softer in the second channel."""
    now = torch.arange(round(rate * seconds), dtype=torch.float64) / rate
    wave = 0.5 * torch.sin(2 * math.pi * (200 + 300 * now) * now)
    return torch.stack([wave, 0.5 * wave])[:channels].float()


def encode(
    spec: OutputSpec,
    clip: torch.Tensor,
    chunk: int = 4,
    live: Callable[[bytes], None] | None = None,
    sound: torch.Tensor | None = None,
    sound_at: int = 0,
) -> Artifact:
    """Write `clip` in chunks, and `sound` once `sound_at` frames are written; wait for the file."""
    with open_sink(spec, live) as sink:
        written = 0
        for frames in chunks(clip, chunk):
            if (
                sound is not None
                and spec.audio is not None
                and written <= sound_at < written + frames.shape[1]
            ):
                sink.write_sound(sound, spec.audio.sample_rate)
            sink.write(frames)
            written += frames.shape[1]
        if sound is not None and spec.audio is not None and sound_at >= written:
            sink.write_sound(sound, spec.audio.sample_rate)
    return sink.close()
