"""The architectures of the trained tiny checkpoints: the real classes, with small numbers."""

from __future__ import annotations

from typing import Any

from diffusers import WanTransformer3DModel

from pipelines.tiny_wan import nets

TEXT_DIM = 64
LAYOUTS = ("z16", "z48")


def vae(layout: str) -> Any:
    """An untrained VAE: `z16` as in Wan 2.1 and A14B (8 x 8 x 4), `z48` as in Wan 2.2 5B (16 x 16 x 4)."""
    if layout == "z16":
        # Four times as wide behind the first level: there are few pixels there, and most of the time is spent
        # on the many.
        return nets.vae_z16((1, 4, 4, 4))
    channels = nets.Z48_CHANNELS
    return nets.vae_z48((1, 2, 2, 2), mean=[0.0] * channels, std=[1.0] * channels)


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
    return nets.text_encoder(vocab_size, TEXT_DIM)
