"""The architectures of the trained tiny checkpoints: the real classes, with small numbers."""

from __future__ import annotations

from typing import Any

from diffusers import AutoencoderKLWan, WanTransformer3DModel
from transformers import UMT5Config, UMT5EncoderModel

TEXT_DIM = 64
LAYOUTS = ("z16", "z48")


def vae(layout: str) -> Any:
    """An untrained VAE: `z16` as in Wan 2.1 and A14B (8 x 8 x 4), `z48` as in Wan 2.2 5B (16 x 16 x 4)."""
    if layout == "z16":
        # Four times as wide behind the first level: there are few pixels there, and most of the time is spent
        # on the many.
        return AutoencoderKLWan(base_dim=8, dim_mult=[1, 4, 4, 4], num_res_blocks=1)
    return AutoencoderKLWan(
        base_dim=16,
        decoder_base_dim=16,
        dim_mult=[1, 2, 2, 2],
        num_res_blocks=1,
        z_dim=48,
        latents_mean=[0.0] * 48,
        latents_std=[1.0] * 48,
        is_residual=True,
        in_channels=12,
        out_channels=12,
        patch_size=2,
        scale_factor_spatial=16,
    )


def transformer(in_channels: int, out_channels: int) -> Any:
    """An untrained expert of about two million parameters."""
    return WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=4,
        attention_head_dim=40,
        in_channels=in_channels,
        out_channels=out_channels,
        text_dim=TEXT_DIM,
        freq_dim=64,
        ffn_dim=480,
        num_layers=6,
    )


def text_encoder(vocab_size: int) -> Any:
    """An untrained UMT5 encoder."""
    config = UMT5Config(
        vocab_size=vocab_size,
        d_model=TEXT_DIM,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        relative_attention_num_buckets=32,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
        pad_token_id=0,
        eos_token_id=1,
    )
    return UMT5EncoderModel(config)
