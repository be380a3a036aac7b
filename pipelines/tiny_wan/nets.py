"""Wan's architectures with small numbers: what tiny checkpoints have in common, however wide they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from diffusers import AutoencoderKLWan
from transformers import UMT5Config, UMT5EncoderModel

Z48_CHANNELS = 48
Z48: Mapping[str, Any] = MappingProxyType(
    {
        "z_dim": Z48_CHANNELS,
        "is_residual": True,
        "in_channels": 12,
        "out_channels": 12,
        "patch_size": 2,
        "scale_factor_spatial": 16,
    }
)
"""The layout of the VAE of Wan 2.2 5B, whatever its size; diffusers' default arguments are that of z16."""


def vae_z16(widths: Sequence[int]) -> AutoencoderKLWan:
    """Laid out like the VAE of Wan 2.1 and A14B: 8 x 8 x 4 pixels to 16 channels. `widths`: of its four
    levels, in eights.
    """
    return AutoencoderKLWan(base_dim=8, dim_mult=list(widths), num_res_blocks=1)


def vae_z48(widths: Sequence[int], mean: Sequence[float], std: Sequence[float]) -> AutoencoderKLWan:
    """Laid out by `Z48`: 16 x 16 x 4 pixels to 48 channels. `widths`: of its four levels, in sixteens;
    `mean` and `std`: of its latents, by channel.
    """
    return AutoencoderKLWan(
        base_dim=16,
        decoder_base_dim=16,
        dim_mult=list(widths),
        num_res_blocks=1,
        latents_mean=list(mean),
        latents_std=list(std),
        **Z48,
    )


def text_encoder(vocab_size: int, dim: int) -> UMT5EncoderModel:
    """A UMT5 of two layers over the ids of `pipelines.tiny_wan.tokenizer`; `dim` is a multiple of 16."""
    head = 16
    config = UMT5Config(
        vocab_size=vocab_size,
        d_model=dim,
        d_kv=head,
        d_ff=2 * dim,
        num_layers=2,
        num_heads=dim // head,
        relative_attention_num_buckets=32,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
        pad_token_id=0,
        eos_token_id=1,
    )
    return UMT5EncoderModel(config)
