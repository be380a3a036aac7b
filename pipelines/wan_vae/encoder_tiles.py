"""Where the layers of the encoder at the full frame rate take a picture in tiles, and what memory they need.

They look at pixels around a pixel only, as the decoder's last ones do; see `tiles`. They end at half the
sides of what goes in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import WanResample, WanResidualBlock

from pipelines.wan_vae.fast import CACHE_FRAMES
from pipelines.wan_vae.memory import MARGIN, TILES, Free, Tiling, causal, free_now, largest
from pipelines.wan_vae.tiles import Size, Span, spans

_FRAMES = 4
"""Of a step."""


def encode_tile(vae: Any, frames: torch.Tensor, tile: Tiling, free: Free | None = None) -> Size | None:
    """The tiles for `frames` (T, H, W, C), by what is `free` (None: as the device says); None: whole.

    The rule is the decoder's: with `tile` given, that; else the largest that fits where whole pictures do
    not. On the host there are tiles only where they are given.
    """
    if tile != "auto":
        return tile
    if free is None:
        if not frames.is_cuda:
            return None
        free = free_now(frames.device)
    smallest = None
    for size in (None, *TILES):
        device, host = encode_bytes(vae, frames, size)
        if host <= free.host:
            smallest = size
            if device <= free.device:
                break
    return smallest


def encode_bytes(vae: Any, frames: torch.Tensor, size: Size | None) -> tuple[int, int]:
    """Upper estimates of what encoding `frames` (T, H, W, C) takes over them and the weights.

    On the device, and on the host for waiting tiles, where torch gives memory out in powers of two.
    """
    encoder, scale = vae.encoder, _scale(vae)
    fast, slow = split_rates(vae)
    whole = area = frames.shape[1] * frames.shape[2]
    tiles = 0
    if size is not None:
        rows, columns = encode_grid(vae, frames.shape[1], frames.shape[2], size)
        area, tiles = largest(rows, columns), len(rows) * len(columns)
    ahead = _need([encoder.conv_in, *fast], area)
    behind = _need([*slow, encoder.mid_block, encoder.conv_out], whole // scale**2)
    channels = [conv.out_channels for block in fast for conv in causal(block)][-1]
    made = 2 * _FRAMES * whole // scale**2 * channels  # and a copy, which the layers behind write over
    values = made + ahead.kept + behind.kept + max(ahead.worst, behind.worst)
    value_bytes = frames.element_size()
    return int(values * value_bytes * MARGIN), 2 * tiles * ahead.kept * value_bytes


@dataclass(frozen=True, slots=True)
class _Need:
    """Values that convolutions keep, and those at hand at the worst moment."""

    kept: int
    worst: int


def _need(modules: Iterable[Any], area: int) -> _Need:
    """Of layers one after another, whose first has pictures of `area` pixels."""
    kept, worst, frames = 0, 0, _FRAMES
    for module in modules:
        convs = list(causal(module))
        kept += sum(CACHE_FRAMES * area * conv.in_channels for conv in convs if conv.kernel_size[0] > 1)
        worst = max(worst, area * max((conv.out_channels for conv in convs), default=0) * (4 * frames + 2))
        resample = _resample(module)
        if resample is not None:
            area //= 4
            frames = max(1, frames // 2) if resample.mode == "downsample3d" else frames
    return _Need(kept, worst)


def encode_grid(vae: Any, height: int, width: int, size: Size) -> tuple[list[Span], list[Span]]:
    """Rows and columns of tiles of frames as the encoder's first layer takes them."""
    scale = _scale(vae)
    unit = scale * (vae.config.patch_size or 1)  # pixels under a pixel of what comes out
    rows, columns = (
        spans(side // scale, wanted // unit, encode_halo(vae), into=scale)
        for side, wanted in ((height, size[1]), (width, size[0]))
    )
    return rows, columns


def encode_halo(vae: Any) -> int:
    """Pixels around a tile of what comes out that it depends on: one for each 3 × 3 convolution."""
    reach = 0
    for block in reversed(split_rates(vae)[0]):
        if _resample(block) is not None:
            reach = 2 * reach + 1  # its kernel of three begins at every second pixel
        reach += sum(2 for module in block.modules() if isinstance(module, WanResidualBlock))
    return -(-(reach + 1) // _scale(vae))  # conv_in


def split_rates(vae: Any) -> tuple[list[Any], list[Any]]:
    """The blocks before the first that halves the frames, and the rest."""
    blocks = list(vae.encoder.down_blocks)
    for position, block in enumerate(blocks):
        resample = _resample(block)
        if resample is not None and resample.mode == "downsample3d":
            return blocks[:position], blocks[position:]
    return blocks, []


def _scale(vae: Any) -> int:
    """How much smaller the sides are behind the layers at the full rate."""
    halvings = sum(_resample(block) is not None for block in split_rates(vae)[0])
    return 1 << halvings


def _resample(block: Any) -> WanResample | None:
    return block if isinstance(block, WanResample) else getattr(block, "downsampler", None)
