"""H3's decoders before a model's first request."""

from __future__ import annotations

from typing import Any

import torch
from diffusers.modular_pipelines.minimax_h3.modular_pipeline import audio_latent_num_frames

from pipelines.minimax_h3.blocks import SOUND, Run
from pipelines.minimax_h3.decode import frames


def decode_once(pipe: Any, task: str, width: int, height: int, num_frames: int, device: torch.device) -> None:
    """Decode one clip of `width` × `height` pixels, on the grid, and the sound of `num_frames` frames."""
    scale, vae = pipe.vae_spatial_compression_ratio, pipe.vae
    length = pipe.vae_latents_per_chunk + vae.token_overlap
    shape = (1, pipe.vae_latent_channels, length, height // scale, width // scale)
    for _ in frames(pipe, torch.randn(shape, device=device)):
        pass
    samples = audio_latent_num_frames(num_frames, pipe.fps)
    sound = torch.randn((pipe.audio_channels, pipe.audio_latent_channels, samples), device=device)
    Run(pipe, task, {"audio_latents": sound}).run(SOUND)
