"""What went before a clip, packed: the nearer a frame, the more tokens it has."""

from __future__ import annotations

import torch
from torch import nn

from pipelines.wan_s2v.positions import Span, packed_span

PACKS = ((1, 1), (2, 2), (16, 4))
"""Latent frames and stride of each pack, from the nearest to the farthest; a token of a pack stands for
`stride` frames and `2 · stride` latent rows and columns."""
PACKED_FRAMES = sum(frames for frames, _ in PACKS)
PATCH = 2
"""Latent rows and columns of a token at stride 1."""


class MotionPacker(nn.Module):
    """Latents of the frames before a clip → tokens."""

    def __init__(self, channels: int, dim: int) -> None:
        super().__init__()
        self.proj = _patches(channels, dim, 1)
        self.proj_2x = _patches(channels, dim, 2)
        self.proj_4x = _patches(channels, dim, 4)

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        """(B, C, T, H, W), H and W multiples of 8 → (B, tokens, D).

        The last `PACKED_FRAMES` frames count, with zeros before them where there are fewer.
        """
        batch, channels, frames, height, width = latents.shape
        missing = max(PACKED_FRAMES - frames, 0)
        zeros = latents.new_zeros(batch, channels, missing, height, width)
        whole = torch.cat([zeros, latents[:, :, -PACKED_FRAMES:]], dim=2)
        sizes = [frames for frames, _ in reversed(PACKS)]
        far, near, last = torch.split(whole, sizes, dim=2)
        packs = (self.proj(last), self.proj_2x(near), self.proj_4x(far))
        return torch.cat([pack.flatten(2).transpose(1, 2) for pack in packs], dim=1)

    @staticmethod
    def spans(rows: int, columns: int) -> list[Span]:
        """The tokens' places, for a clip of `rows` × `columns` tokens a frame."""
        spans, first = [], 0
        for frames, stride in PACKS:
            first -= frames
            spans.append(packed_span(first, frames, stride, rows, columns))
        return spans


def _patches(channels: int, dim: int, stride: int) -> nn.Conv3d:
    size = (stride, PATCH * stride, PATCH * stride)
    return nn.Conv3d(channels, dim, kernel_size=size, stride=size)
