"""Weights and inputs that both implementations are given: drawn by name, so that no file has to hold them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch

SEED = "wan s2v 1"

TEXT_LENGTH = 12
TRANSFORMER: dict[str, Any] = {
    "cond_dim": 16,
    "audio_dim": 12,
    "num_audio_token": 4,
    "enable_adain": True,
    "adain_mode": "attn_norm",
    "audio_inject_layers": [0, 2, 4],
    "zero_init": False,
    "zero_timestep": True,
    "enable_motioner": False,
    "add_last_motion": True,
    "enable_tsm": False,
    "enable_framepack": True,
    "framepack_drop_mode": "padd",
    "model_type": "s2v",
    "text_len": TEXT_LENGTH,
    "in_dim": 16,
    "dim": 48,
    "ffn_dim": 64,
    "freq_dim": 32,
    "text_dim": 20,
    "out_dim": 16,
    "num_heads": 2,
    "num_layers": 6,
}
"""The official model's configuration, tiny; what its file leaves out (`text_dim`) among it."""

AUDIO_LAYERS = 25
VAE_DIM = 8
WAV2VEC: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "conv_dim": [8] * 7,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2,
    "do_stable_layer_norm": True,
    "feat_extract_norm": "layer",
    "conv_bias": True,
    "vocab_size": 8,
    "apply_spec_augment": False,
}
SOUND_SECONDS = 3.3
FPS = ("16", "24", "30", "10", "24000/1001")

CLIP = 8
MOTION = 13
CLIPS: Mapping[str, int] = MappingProxyType({"loop": 3, "loop_first": 2, "loop_posed": 2})
"""By the test's name."""
SIDES = (64, 64)
"""Width and height of the clips."""
STEPS, SHIFT, GUIDANCE, LOOP_SEED = 3, 3.0, 4.5, 11


def noise(name: str, *shape: int) -> torch.Tensor:
    """Uniform float32 of variance 1 that depends on `name` only."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{SEED} {name}".encode()))
    return (torch.rand(shape, generator=generator) * 2 - 1) * math.sqrt(3)


def weights(like: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state with the names and shapes of `like`: matrices that keep a variance, norms near 1."""
    return {name: _weight(name, tensor.shape) for name, tensor in like.items()}


def _weight(name: str, shape: torch.Size) -> torch.Tensor:
    if not shape:
        return torch.zeros(shape, dtype=torch.long)
    drawn = noise(name, *shape)
    if name.endswith(("gamma", "original0")) or (len(shape) == 1 and name.endswith("weight")):
        return 1 + 0.1 * drawn
    if name.endswith(("weight", "original1")):
        return drawn / math.sqrt(math.prod(shape[1:]))
    return 0.3 * drawn


def sound() -> torch.Tensor:
    """Mono at 16 kHz: a tone that comes and goes, and noise."""
    t = torch.arange(int(SOUND_SECONDS * 16000)) / 16000
    return 0.5 * torch.sin(440 * 2 * math.pi * t) * torch.sin(3 * t) + 0.05 * noise("sound", len(t))


def forward_inputs() -> dict[str, torch.Tensor]:
    """Of one call of the transformer: 3 latent frames of 8 × 16, 19 of motion, 12 of sound."""
    return {
        "latents": noise("latents", 16, 3, 8, 16),
        "text": noise("text", 7, 20),
        "reference": noise("reference", 16, 1, 8, 16),
        "motion": noise("motion", 16, 19, 8, 16),
        "poses": noise("poses", 16, 3, 8, 16),
        "audio": noise("audio", 1, AUDIO_LAYERS, 12, 12),
    }


def picture() -> torch.Tensor:
    """(H, W, 3) uint8, smooth."""
    rows, columns = torch.meshgrid(torch.arange(SIDES[1]), torch.arange(SIDES[0]), indexing="ij")
    channels = [(128 + 100 * torch.sin(rows / a + columns / b)) for a, b in ((9, 7), (15, 5), (6, 20))]
    return torch.stack(channels, dim=-1).round().to(torch.uint8)


def film(frames: int) -> torch.Tensor:
    """(T, H, W, 3) uint8: the picture, which moves from its fourth frame on."""
    return torch.stack([picture().roll(2 * max(frame - 3, 0), dims=1) for frame in range(frames)])
