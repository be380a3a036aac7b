"""A Wan VAE over all frames in one pass: the same numbers as diffusers' walk in steps, made for gradients.

diffusers goes through a clip in steps of one latent frame and keeps what the causal convolutions need. Short
clips are faster in one piece, and give autograd one graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers.models.autoencoders.autoencoder_kl_wan import patchify, unpatchify


def encode(vae: Any, video: torch.Tensor) -> torch.Tensor:
    """Video (B, 3, 4k + 1, H, W) in [-1, 1] → mean and log variance of the latents (B, 2C, k + 1, h, w)."""
    encoder = vae.encoder
    x = encoder.conv_in(video if vae.config.patch_size is None else patchify(video, vae.config.patch_size))
    for block in encoder.down_blocks:
        x = _down(block, x)
    return vae.quant_conv(_head(encoder, _middle(encoder.mid_block, x)))  # type: ignore[no-any-return]


def decode(vae: Any, latents: torch.Tensor) -> torch.Tensor:
    """Latents (B, C, T, h, w), not normalized → video (B, 3, 4T - 3, H, W), not clamped."""
    decoder = vae.decoder
    x = _middle(decoder.mid_block, decoder.conv_in(vae.post_quant_conv(latents)))
    for block in decoder.up_blocks:
        x = _up(block, x)
    x = _head(decoder, x)
    if vae.config.patch_size is None:
        return x
    return unpatchify(x, vae.config.patch_size)  # type: ignore[no-any-return]


def normed(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """SiLU of `x` (B, C, …) divided by its root mean square over channels, times `gain` (C, …)."""
    wide = x.float()
    scale = torch.rsqrt(wide.square().mean(dim=1, keepdim=True) + 1e-12)
    return F.silu(wide * scale * gain).to(x.dtype)


def compile_norms() -> None:
    """Fuse what is done between convolutions into one pass: worth it where they are cheap, as on a CPU."""
    global _normed  # for the whole process, like torch's own caches
    torch._dynamo.config.recompile_limit = 64  # one for each width, and size, of a VAE
    _normed = torch.compile(normed, dynamic=False)


_normed: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] = normed


def _head(half: Any, x: torch.Tensor) -> torch.Tensor:
    return half.conv_out(_normed(x, half.norm_out.gamma))  # type: ignore[no-any-return]


def _middle(block: Any, x: torch.Tensor) -> torch.Tensor:
    first, second = block.resnets
    return _residual(second, block.attentions[0](_residual(first, x)))


def _residual(block: Any, x: torch.Tensor) -> torch.Tensor:
    inner = block.conv1(_normed(x, block.norm1.gamma))
    inner = block.conv2(_normed(inner, block.norm2.gamma))
    return inner + block.conv_shortcut(x)  # type: ignore[no-any-return]


def _down(block: Any, x: torch.Tensor) -> torch.Tensor:
    """One entry of an encoder's `down_blocks`: a residual block, a resampling, or z48's block of both."""
    if not hasattr(block, "avg_shortcut"):
        return _smaller(block, x) if hasattr(block, "resample") else _residual(block, x)
    whole = x
    for resnet in block.resnets:
        x = _residual(resnet, x)
    if block.downsampler is not None:
        x = _smaller(block.downsampler, x)
    return x + _averaged(block.avg_shortcut, whole)


def _averaged(shortcut: Any, x: torch.Tensor) -> torch.Tensor:
    """The first frame is a step of its own, and is averaged with black frames before it."""
    first = shortcut(x[:, :, :1])
    return first if x.shape[2] == 1 else torch.cat([first, shortcut(x[:, :, 1:])], dim=2)


def _smaller(resample: Any, x: torch.Tensor) -> torch.Tensor:
    """Half the sides; half the frames after the first, which no convolution over time sees."""
    x = _in_space(resample, x)
    if resample.mode == "downsample2d" or x.shape[2] == 1:
        return x
    return torch.cat([x[:, :, :1], resample.time_conv(x)], dim=2)


def _up(block: Any, x: torch.Tensor) -> torch.Tensor:
    """One entry of a decoder's `up_blocks`, of either layout."""
    whole = x
    for resnet in block.resnets:
        x = _residual(resnet, x)
    residual = hasattr(block, "avg_shortcut")
    upsampler = block.upsampler if residual else (block.upsamplers or [None])[0]
    if upsampler is not None:
        x = _larger(upsampler, x)
    if residual and block.avg_shortcut is not None:
        x = x + block.avg_shortcut(whole, first_chunk=True)
    return x


def _larger(resample: Any, x: torch.Tensor) -> torch.Tensor:
    """Twice the sides; twice the frames after the first."""
    if resample.mode == "upsample3d" and x.shape[2] > 1:
        pairs = resample.time_conv(x[:, :, 1:]).unflatten(1, (2, -1))
        x = torch.cat([x[:, :, :1], pairs.movedim(1, 3).flatten(2, 3)], dim=2)
    return _in_space(resample, x)


def _in_space(resample: Any, x: torch.Tensor) -> torch.Tensor:
    frames = x.transpose(1, 2).flatten(0, 1)
    return resample.resample(frames).unflatten(0, (x.shape[0], -1)).transpose(1, 2)  # type: ignore[no-any-return]
