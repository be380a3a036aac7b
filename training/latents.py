"""Clips of the world as the transformers learn them: encoded once, kept in files.

    python -m training.latents VAE FOLDER --clips 8000 [--canvas 160x96x17] [--pictures]

`VAE` is a folder that `training.vae --finish` wrote. What is in `FOLDER` already is not made again.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLWan
from safetensors.torch import load_file, save_file

from pipelines.wan_condition import statistics
from training import whole, world

_SHARD = 200
"""Clips in a file: about 8 MB at the default size."""
_AT_ONCE = 20
"""Clips in a pass of the VAE."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Clips of one size. Normalized latents (B, C, T, h, w), float32.

    `first` and `both`: a video that is black but for its first, or its first and last picture, encoded;
    None where a model needs none.
    """

    scenes: list[world.Scene]
    latents: torch.Tensor
    first: torch.Tensor | None
    both: torch.Tensor | None


class Cache:
    """All clips of one size in memory, float16, on a device."""

    def __init__(self, folder: Path, canvas: world.Canvas, device: str) -> None:
        files = sorted(_folder(folder, canvas).glob("*.safetensors"))
        if not files:
            raise FileNotFoundError(f"{_folder(folder, canvas)}: no clips; see training.latents")
        shards = [load_file(file, device=device) for file in files]
        self._tensors = {name: torch.cat([shard[name] for shard in shards]) for name in shards[0]}
        self._scenes = [world.scene(seed, canvas) for seed in range(len(self._tensors["latents"]))]

    def __len__(self) -> int:
        return len(self._scenes)

    def batch(self, indices: list[int]) -> Batch:
        """The clips with these numbers, from 0."""
        found = {name: tensor[indices].float() for name, tensor in self._tensors.items()}
        return Batch(
            [self._scenes[index] for index in indices],
            found["latents"],
            found.get("first"),
            found.get("both"),
        )


@lru_cache(maxsize=8)
def cache_of(folder: Path, canvas: world.Canvas, device: str) -> Cache:
    """The clips of one size, read once: one run follows another on the same ones."""
    return Cache(folder, canvas, device)


def make(
    vae: Any, folder: Path, canvas: world.Canvas, clips: int, *, pictures: bool, minutes: float | None = None
) -> bool:
    """Encode the scenes 0 … `clips` - 1 into files below `folder`; False when `minutes` were too few."""
    target = _folder(folder, canvas)
    target.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    for start in range(0, clips, _SHARD):
        file = target / f"{start:06}.safetensors"
        if file.exists():
            continue
        if minutes is not None and time.monotonic() - started > minutes * 60:
            return False
        seeds = range(start, min(clips, start + _SHARD))
        encoded = [
            _encoded(vae, seeds[first : first + _AT_ONCE], canvas, pictures=pictures)
            for first in range(0, len(seeds), _AT_ONCE)
        ]
        shard = {name: torch.cat([some[name] for some in encoded]) for name in encoded[0]}
        save_file(shard, file.with_suffix(".part"))
        file.with_suffix(".part").rename(file)
    return True


@torch.inference_mode()
def _encoded(vae: Any, seeds: range, canvas: world.Canvas, *, pictures: bool) -> dict[str, torch.Tensor]:
    videos = torch.stack([world.draw(world.scene(seed, canvas), vae.device) for seed in seeds])
    found = {"latents": normalized(vae, videos)}
    if pictures:
        black = torch.zeros_like(videos)
        black[:, :, 0] = videos[:, :, 0]
        found["first"] = normalized(vae, black)
        black[:, :, -1] = videos[:, :, -1]
        found["both"] = normalized(vae, black)
    return {name: values.half().cpu().contiguous() for name, values in found.items()}


def normalized(vae: Any, video: torch.Tensor) -> torch.Tensor:
    """Video (B, 3, T, H, W) in [-1, 1] → latents as a transformer sees them, float32."""
    with torch.autocast(video.device.type, torch.bfloat16):
        mean = whole.encode(vae, video).float().chunk(2, dim=1)[0]
    centre, spread = statistics(vae, mean)
    return (mean - centre) / spread


def _folder(folder: Path, canvas: world.Canvas) -> Path:
    return folder / f"{canvas.width}x{canvas.height}x{canvas.frames}"


def loaded(folder: Path) -> Any:
    """A finished VAE, in float32."""
    return AutoencoderKLWan.from_pretrained(folder, torch_dtype=torch.float32)


def canvas_of(text: str) -> world.Canvas:
    """`160x96x17` → width, height, frames.

    Raises:
        ValueError: it is written otherwise.
    """
    width, height, frames = map(int, text.split("x"))
    return world.Canvas(width, height, frames)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description="Encode clips of the world.")
    parser.add_argument("vae", type=Path, help="a diffusers folder of the trained VAE")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clips", type=int, default=8000)
    parser.add_argument("--canvas", type=canvas_of, default=world.Canvas(160, 96, 17), metavar="WxHxFRAMES")
    parser.add_argument("--pictures", action="store_true", help="for I2V: encode first and last pictures too")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--device", default="cpu")
    return parser


def main(arguments: Sequence[str] | None = None) -> bool:
    """The command; whether all clips are there now."""
    options = parser().parse_args(arguments)
    vae = loaded(options.vae).to(options.device)
    return make(
        vae, options.folder, options.canvas, options.clips, pictures=options.pictures, minutes=options.minutes
    )


if __name__ == "__main__":
    main()
