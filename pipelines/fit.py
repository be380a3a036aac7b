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
        return ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.LANCZOS)
