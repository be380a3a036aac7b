"""The decoder step by step with diffusers' own operators, for the same bits as its one-shot `decode`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import (
    WanCausalConv3d,
    WanMidBlock,
    WanResample,
    WanResidualBlock,
    WanResidualUpBlock,
    WanUpBlock,
    unpatchify,
)

CACHE_FRAMES = 2
"""Earlier frames under a causal kernel of three."""


def stream(vae: AutoencoderKLWan, latents: torch.Tensor) -> Iterator[torch.Tensor]:
    """Latents as `AutoencoderKLWan.decode` takes them to frames, one latent frame after another."""
    latents = vae.post_quant_conv(latents)
    caches: list[torch.Tensor] = []
    yield _frames(vae, latents[:, :, :1], _Step(caches, first=True))
    for start in range(1, latents.shape[2]):
        yield _frames(vae, latents[:, :, start : start + 1], _Step(caches))


def _frames(vae: AutoencoderKLWan, latents: torch.Tensor, step: _Step) -> torch.Tensor:
    """(1, z_dim, 1, H, W) after `post_quant_conv` to frames (3, t, H · scale, W · scale)."""
    decoder = vae.decoder
    x = _mid(decoder.mid_block, step.conv(decoder.conv_in, latents), step)
    for block in decoder.up_blocks:
        x = _up(block, x, step)
    x = step.conv(decoder.conv_out, decoder.nonlinearity(decoder.norm_out(x)))
    if vae.config.patch_size is not None:
        x = unpatchify(x, patch_size=vae.config.patch_size)
    return x.clamp(-1, 1)[0]


class _Step:
    """One walk through the decoder: gives each causal convolution its earlier frames and keeps the next."""

    def __init__(self, caches: list[torch.Tensor], *, first: bool = False) -> None:
        """`caches`: (1, channels, 2, height, width) for each convolution in the order of the walk; updated.

        The first step starts from none and fills them in.
        """
        self.first = first
        self._caches = caches
        self._position = -1

    def conv(self, conv: WanCausalConv3d, x: torch.Tensor) -> torch.Tensor:
        """`conv` over `x`, (1, channels, t, height, width), and the frames before it."""
        position = self._next(x)
        cache = self._caches[position]
        self._caches[position] = _last_frames(cache, x)
        result: torch.Tensor = conv(x, cache)
        return result

    def doubled(self, time_conv: WanCausalConv3d, x: torch.Tensor) -> torch.Tensor:
        """Two frames for each of `x`. The first latent frame skips this and leaves no trace in the cache."""
        if self.first:
            self._next(x)
            return x
        batch, channels, frames, height, width = x.shape
        pairs = self.conv(time_conv, x).reshape(batch, 2, channels, frames, height, width)
        return pairs.permute(0, 2, 3, 1, 4, 5).flatten(2, 3)

    def _next(self, x: torch.Tensor) -> int:
        if self.first:
            self._caches.append(x.new_zeros(*x.shape[:2], CACHE_FRAMES, *x.shape[3:]))
        self._position += 1
        return self._position


def _last_frames(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The last two frames of `cache` followed by `x`, in memory of their own."""
    if x.shape[2] >= CACHE_FRAMES:
        return x[:, :, -CACHE_FRAMES:].clone()
    return torch.cat([cache[:, :, x.shape[2] :], x], dim=2)


def _mid(block: WanMidBlock, x: torch.Tensor, step: _Step) -> torch.Tensor:
    x = _residual(block.resnets[0], x, step)
    for attention, resnet in zip(block.attentions, block.resnets[1:], strict=True):
        x = _residual(resnet, attention(x), step)
    return x


def _up(block: WanUpBlock | WanResidualUpBlock, x: torch.Tensor, step: _Step) -> torch.Tensor:
    entered = x
    for resnet in block.resnets:
        x = _residual(resnet, x, step)
    if isinstance(block, WanUpBlock):
        return x if block.upsamplers is None else _upsample(block.upsamplers[0], x, step)
    if block.upsampler is not None:
        x = _upsample(block.upsampler, x, step) + block.avg_shortcut(entered, first_chunk=step.first)
    return x


def _residual(block: WanResidualBlock, x: torch.Tensor, step: _Step) -> torch.Tensor:
    shortcut: torch.Tensor = block.conv_shortcut(x)
    x = step.conv(block.conv1, block.nonlinearity(block.norm1(x)))
    x = step.conv(block.conv2, block.nonlinearity(block.norm2(x)))
    return x + shortcut


def _upsample(resample: WanResample, x: torch.Tensor, step: _Step) -> torch.Tensor:
    if resample.mode == "upsample3d":
        x = step.doubled(resample.time_conv, x)
    frames: torch.Tensor = resample.resample(x.transpose(1, 2).flatten(0, 1))
    return frames.reshape(x.shape[0], x.shape[2], *frames.shape[1:]).transpose(1, 2)
