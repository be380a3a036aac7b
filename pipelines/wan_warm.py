"""The VAE before a model's first request: what is made on first use is made then."""

from __future__ import annotations

from typing import Any

import torch

from pipelines.base import Grid, ModelConfig
from pipelines.wan_vae import StreamingDecoder
from pipelines.wan_vae.encoder import encode
from pipelines.warming import room_for, warming

WARM_LATENTS = 6
"""A first latent frame, a whole step or two, and one that is not whole."""
WARM_VIDEO = 9
"""Frames: one, and two steps of the encoder."""


def warm(pipe: Any, decoder: StreamingDecoder, grid: Grid, config: ModelConfig, encoded: int) -> None:
    """Decode, and encode `encoded` frames, at each expected size once: no request waits for that."""
    vae, device = pipe.vae, pipe._execution_device
    scale = vae.config.scale_factor_spatial
    with warming(config.id, device):
        for width, height in dict.fromkeys(((config.width, config.height), *config.decode.warm_sizes)):
            sides = grid.side(height), grid.side(width)
            shape = (1, vae.config.z_dim, WARM_LATENTS, *(side // scale for side in sides))
            with room_for(config.id, width, height):
                for _ in decoder.decode(torch.randn(shape, dtype=vae.dtype, device=device)):
                    pass
                if encoded:
                    video = torch.rand(1, 3, encoded, *sides, dtype=vae.dtype, device=device)
                    encode(vae, video, config.decode.tile)
        pipe.maybe_free_model_hooks()
