"""How much of a video is decoded at once: by the memory that it takes and the memory that is free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d

DEFAULT_BYTES = 6000 * 2**20
"""What a decode may take over the weights, if as much is free."""
_CHUNKS = (4, 2, 1)
"""Latent frames a step, the fastest first."""
_STRETCHES = (4, 2, 1)
"""Frames at the last resolution at once; four is what one latent frame makes."""
_MARGIN = 1.15
"""For the libraries' workspaces and what the allocator cannot use."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`chunk` latent frames a step, `stretch` frames at once at the last resolution."""

    chunk: int
    stretch: int


def plan(vae: AutoencoderKLWan, latents: torch.Tensor, chunk: int | None, free: int | None = None) -> Plan:
    """The sizes for `latents` (1, z_dim, T, H, W), with `free` bytes of memory (None: as the device says).

    The rule: with `chunk` given, that; else the largest of 4, 2 and 1 latent frames that takes at most
    `DEFAULT_BYTES` and at most what is free. If even one takes more than is free, the last resolution, which
    takes the most, goes two frames or one at a time. On the host one latent frame makes a step.
    """
    if free is None:
        if not latents.is_cuda:
            return Plan(chunk or 1, _STRETCHES[0] * (chunk or 1))
        free = _free_bytes(latents.device)
    allowed = min(DEFAULT_BYTES, free)
    for wanted in _CHUNKS if chunk is None else (chunk,):
        if needed_bytes(vae, latents, Plan(wanted, _STRETCHES[0])) <= allowed:
            return Plan(wanted, _STRETCHES[0])
    wanted = chunk or 1
    sizes = [Plan(wanted, stretch) for stretch in _STRETCHES]
    return next((size for size in sizes if needed_bytes(vae, latents, size) <= free), sizes[-1])


def needed_bytes(vae: AutoencoderKLWan, latents: torch.Tensor, sizes: Plan) -> int:
    """An upper estimate of what a decode of `latents` takes over the weights.

    Two frames for each causal convolution throughout, and at the worst moment of the walk the frames that
    a residual block or an upsampling has at hand: its input, a window over the earlier frames and a result.
    """
    pixels, frames = latents.shape[3] * latents.shape[4], sizes.chunk
    decoder = vae.decoder
    caches = _cache_values(decoder.conv_in, pixels) + _cache_values(decoder.mid_block, pixels)
    worst = 0
    held = 0
    last = len(decoder.up_blocks) - 1
    for position, block in enumerate(decoder.up_blocks):
        caches += _cache_values(block, pixels)
        if position == last:
            frames = min(frames, sizes.stretch)
        wide = max(conv.out_channels for conv in block.modules() if isinstance(conv, WanCausalConv3d))
        worst = max(worst, held + pixels * wide * (4 * frames + 2))
        if position < last:
            resample = _upsampler(block)
            frames *= 2 if resample.mode == "upsample3d" else 1
            if position == last - 1:
                held = pixels * resample.dim * frames
                frames = min(frames, sizes.stretch)
            pixels *= 4
            conv = resample.resample[1]
            worst = max(worst, held + pixels * frames * (resample.dim + 2 * conv.out_channels))
    caches += _cache_values(decoder.conv_out, pixels)
    return int((caches + worst) * latents.element_size() * _MARGIN)


def _upsampler(block: torch.nn.Module) -> Any:
    upsamplers = getattr(block, "upsamplers", None)
    return block.upsampler if upsamplers is None else upsamplers[0]


def _cache_values(module: torch.nn.Module, pixels: int) -> int:
    convs = (conv for conv in module.modules() if isinstance(conv, WanCausalConv3d))
    return sum(2 * pixels * conv.in_channels for conv in convs if conv.kernel_size[0] > 1)


def _free_bytes(device: torch.device) -> int:
    """Memory that the device or torch's own allocator has to give."""
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return free + unused
