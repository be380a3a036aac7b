"""Clips to encode, float (3, T, H, W), and what describes their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path

import torch

from encoding.base import Artifact, OutputSpec
from encoding.formats import FORMATS, open_sink
from encoding.options import resolve

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
) -> OutputSpec:
    """The file at `path`, of the format its suffix says, with the service's options if none are given."""
    name = path.suffix.removeprefix(".")
    if options is None:
        options = resolve(codec or FORMATS[name].codec, None, present=False)
    _, frames, height, width = clip.shape
    return OutputSpec(path, name, width, height, frames, fps, options, max_pending_bytes, codec)


def encode(
    spec: OutputSpec, clip: torch.Tensor, chunk: int = 4, live: Callable[[bytes], None] | None = None
) -> Artifact:
    """Write `clip` in chunks and wait for the file."""
    with open_sink(spec, live) as sink:
        for frames in chunks(clip, chunk):
            sink.write(frames)
    return sink.close()
