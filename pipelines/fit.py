"""From what a model's grid allows to what was asked for, and from any picture to the model's grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from PIL import Image, ImageOps


def trim(chunks: Iterable[torch.Tensor], num_frames: int, width: int, height: int) -> Iterator[torch.Tensor]:
    """Cut chunks (3, T, H, W) to the picture's centre and to the first `num_frames` frames in all.

    Asks for no chunk beyond the last one that it needs.
    """
    left = num_frames
    for chunk in chunks:
        top, start = (chunk.shape[2] - height) // 2, (chunk.shape[3] - width) // 2
        kept = chunk[:, :left, top : top + height, start : start + width]
        left -= kept.shape[1]
        yield kept
        if left == 0:
            return


def cover(path: Path, width: int, height: int) -> Image.Image:
    """Read a picture and scale it to cover `width` × `height` pixels, cropped around its centre."""
    with Image.open(path) as image:
        return covering(image.convert("RGB"), width, height)


def covering(image: Image.Image, width: int, height: int) -> Image.Image:
    """Scale an RGB picture to cover `width` × `height` pixels, cropped around its centre."""
    return ImageOps.fit(image, (width, height), Image.Resampling.LANCZOS)


def to_pixels(image: Image.Image) -> torch.Tensor:
    """An RGB picture as (3, 1, H, W), float32 in [-1, 1]."""
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.view(1, image.height, image.width, 3).permute(3, 0, 1, 2).float() / 127.5 - 1
