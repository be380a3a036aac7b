"""The transformer's sound: features of a clip → tokens for each latent frame, and where they enter."""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers.models.normalization import AdaLayerNorm
from diffusers.models.transformers.transformer_wan import WanAttention, WanAttnProcessor
from torch import nn

TAPS = 3
"""Frames under a convolution, the last one being the present."""


class CausalConv1d(nn.Conv1d):
    """Looks back only; before the start stands the first value."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, TAPS, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(B, T, C) → (B, T / stride rounded up, C')."""
        back = F.pad(x.transpose(1, 2), (TAPS - 1, 0), mode="replicate")
        return super().forward(back).transpose(1, 2)


class SoundEncoder(nn.Module):
    """All layers of wav2vec2, at the video's rate → tokens at the latents' rate, a quarter of it.

    A learned mean over the layers, then three causal convolutions: once for each of the `tokens`, and once
    for the whole, which only modulates.
    """

    def __init__(self, layers: int, sound_dim: int, dim: int, tokens: int) -> None:
        super().__init__()
        self.layer_weights = nn.Parameter(torch.full((layers,), 0.01))
        self.tokens = tokens
        self.conv_tokens = CausalConv1d(sound_dim, dim // 4 * tokens)
        self.conv_whole = CausalConv1d(sound_dim, dim // 4)
        self.conv_2 = CausalConv1d(dim // 4, dim // 2, stride=2)
        self.conv_3 = CausalConv1d(dim // 2, dim, stride=2)
        self.proj_whole = nn.Linear(dim, dim)
        self.padding_token = nn.Parameter(torch.zeros(dim))

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, layers, C, T) → the whole (B, t, D) and the tokens (B, t, tokens + 1, D), t = ⌈T / 4⌉."""
        weights = F.silu(self.layer_weights).view(1, -1, 1, 1)
        mixed = ((features * weights) / weights.sum()).sum(dim=1).transpose(1, 2)
        whole = self.proj_whole(self._rest(self.conv_whole(mixed)))
        split = torch.unflatten(self.conv_tokens(mixed), 2, (self.tokens, -1)).transpose(1, 2).flatten(0, 1)
        local = torch.unflatten(self._rest(split), 0, (-1, self.tokens)).transpose(1, 2)
        padding = self.padding_token.expand(*local.shape[:2], 1, -1)
        return whole, torch.cat([local, padding], dim=2)

    def _rest(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv_2(_normed(x))
        x = self.conv_3(_normed(x))
        return _normed(x)


def _normed(x: torch.Tensor) -> torch.Tensor:
    return F.silu(F.layer_norm(x, x.shape[-1:], eps=1e-6))


class SoundInjector(nn.Module):
    """Adds to each latent frame what its sound says, after one of the transformer's blocks."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.norm = AdaLayerNorm(embedding_dim=dim, output_dim=2 * dim, chunk_dim=1)
        self.attn = WanAttention(
            dim,
            heads,
            dim // heads,
            eps=1e-6,
            cross_attention_dim_head=dim // heads,
            processor=WanAttnProcessor(),
        )

    def forward(self, hidden: torch.Tensor, whole: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Frames' tokens (B, t · n, D) → the same with their sound; `whole`, `tokens` as `SoundEncoder`'s."""
        frames = tokens.shape[1]
        by_frame = torch.unflatten(hidden, 1, (frames, -1)).flatten(0, 1)
        normed = self.norm(by_frame, temb=whole.flatten(0, 1))
        told = cast(torch.Tensor, self.attn(normed, tokens.flatten(0, 1)))
        return hidden + told.reshape(hidden.shape)
