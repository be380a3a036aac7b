"""H3's picture decoder, a clip at a time.

The VAE decodes seven latent frames into 22 frames and moves on by five: the last five frames of a clip are
faded into the first five of the next one. So all but these are finished as soon as their clip is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def clips(vae: Any, latents: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield finished frames (1, 3, T, H, W) in the VAE's own pixels; together they are `vae.decode(latents)`.

    `latents`: (1, C, 5n + 2, h, w), as the VAE takes them. Each clip is one call of its `decode`; the fade
    between two clips is its own too.
    """
    step, lap, whole = vae.tokens_chunk_size, vae.token_overlap, vae.config.clip_length
    tail: torch.Tensor | None = None
    for start in range(0, latents.shape[2] - lap, step):
        clip = vae.decode(latents[:, :, start : start + step + lap], return_dict=False)[0]
        done, rest = clip[:, :, :whole], clip[:, :, whole:]
        if tail is not None:
            done = vae._blend(tail, done, vae.frame_overlap, dim=-3)
        yield done
        tail = rest
    if tail is not None and tail.shape[2] > 0:
        yield tail


def frames(pipe: Any, latents: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield finished frames (3, T, H, W), RGB in [-1, 1], of the denoised latents (1, C, T, h, w)."""
    vae, device = pipe.vae, latents.device
    mean, std = (_channels(values, device) for values in (vae.config.latents_mean, vae.config.latents_std))
    shift, scale = (_channels(values, device) for values in (pipe.pixel_mean, pipe.pixel_std))
    for clip in clips(vae, latents * std + mean):
        yield (clip.float() * scale + shift).clamp(0, 1)[0] * 2 - 1


def _channels(values: Any, device: torch.device) -> torch.Tensor:
    return torch.tensor(values, device=device).view(1, -1, 1, 1, 1)
