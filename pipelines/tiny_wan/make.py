"""Makes the random tiny checkpoints: `python -m pipelines.tiny_wan.make FOLDER`.

The seeds were chosen among a few for pictures that move and answer to every parameter.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from diffusers import (
    AutoencoderKLWan,
    DiffusionPipeline,
    WanImageToVideoPipeline,
    WanPipeline,
    WanTransformer3DModel,
)
from transformers import UMT5EncoderModel

from pipelines.saving import save
from pipelines.tiny_wan import nets, tokenizer
from pipelines.tiny_wan.weights import fill
from pipelines.wan_denoise import unipc

TEXT_DIM = 32

# Published with the Wan 2.2 TI2V-5B checkpoint; diffusers holds those of Wan 2.1 as its defaults.
Z48_MEAN = (
    *(-0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542, 0.2813, 0.0891),
    *(0.1570, -0.0098, 0.0375, -0.1825, -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108, -0.2158, 0.2502),
    *(-0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230, -0.0313, -0.1649, 0.0117, 0.0723),
    *(-0.2839, -0.2083, -0.0520, 0.3748, 0.0152, 0.1957, 0.1433, -0.2944, 0.3573, -0.0548, -0.1681, -0.0667),
)
Z48_STD = (
    *(0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901),
    *(0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659),
    *(0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944),
    *(0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744),
)

TRANSFORMER_GAINS = {
    # A prompt is a few tokens among hundreds of padding: text without bias makes padding zero, and sharp
    # attention then finds the words.
    "condition_embedder.text_embedder.*.bias": 0.0,
    "condition_embedder.text_embedder.linear_2.weight": 2.0,
    "*.attn2.norm_q.weight": 2.5,
    "*.attn2.norm_k.weight": 2.5,
    "condition_embedder.time_proj.weight": 0.5,
}
VAE_GAINS = {
    "*.bias": 0.3,
    # A large offset in every residual stream: the norms would turn vectors near zero into sharp edges.
    "decoder.conv_in.bias": 12.0,
    "decoder.*.resample.1.bias": 12.0,
    "decoder.conv_out.bias": 0.0,
}
Z16_GAINS = VAE_GAINS | {"decoder.conv_out.weight": 1.15, "quant_conv.weight": 5.0}
Z48_GAINS = VAE_GAINS | {
    "decoder.conv_in.weight": 4.0,
    "decoder.*.upsampler.resample.1.weight": 3.0,  # smooth, and so louder than the blocky shortcut beside it
    "decoder.conv_out.weight": 0.7,
    "quant_conv.weight": 1.8,
}


def make(folder: Path) -> None:
    """Write `t2v/`, `i2v/` and `ti2v/` below `folder`."""
    for name, pipeline in (("t2v", t2v()), ("i2v", i2v()), ("ti2v", ti2v())):
        save(pipeline, folder / name)


def t2v() -> DiffusionPipeline:
    """Text to video with two experts, laid out like Wan2.2-T2V-A14B."""
    return WanPipeline(
        **_common(_z16(), flow_shift=3.0),
        transformer=_transformer("t2v high", 16, 16),
        transformer_2=_transformer("t2v low", 16, 16),
        boundary_ratio=0.875,
    )


def i2v() -> DiffusionPipeline:
    """Image to video with two experts, laid out like Wan2.2-I2V-A14B: noise, mask and image side by side."""
    return WanImageToVideoPipeline(
        **_common(_z16(), flow_shift=3.0),
        transformer=_transformer("i2v high 5", 16 + 4 + 16, 16),
        transformer_2=_transformer("i2v low 5", 16 + 4 + 16, 16),
        boundary_ratio=0.9,
    )


def ti2v() -> DiffusionPipeline:
    """Text, or image and text, to video with one expert, laid out like Wan2.2-TI2V-5B."""
    return WanPipeline(
        **_common(_z48(), flow_shift=5.0), transformer=_transformer("ti2v", 48, 48), expand_timesteps=True
    )


def _common(vae: AutoencoderKLWan, flow_shift: float) -> dict[str, Any]:
    words = tokenizer.build()
    return {
        "tokenizer": words,
        "text_encoder": _text_encoder(len(words)),
        "vae": vae,
        "scheduler": unipc(flow_shift),
    }


def _text_encoder(vocab_size: int) -> UMT5EncoderModel:
    model = nets.text_encoder(vocab_size, TEXT_DIM).eval()
    fill(model, "umt5", {"*.SelfAttention.q.weight": model.config.d_kv**-0.5})
    return model


def _transformer(seed: str, in_channels: int, out_channels: int) -> WanTransformer3DModel:
    model = WanTransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=24,
        in_channels=in_channels,
        out_channels=out_channels,
        text_dim=TEXT_DIM,
        freq_dim=64,
        ffn_dim=96,
        num_layers=2,
    )
    fill(model, seed, TRANSFORMER_GAINS)
    return model.half()


def _z16() -> AutoencoderKLWan:
    vae = nets.vae_z16((1, 2, 2, 2))
    fill(vae, "z16 9", Z16_GAINS)
    return vae.half()


def _z48() -> AutoencoderKLWan:
    vae = nets.vae_z48((1, 1, 1, 1), Z48_MEAN, Z48_STD)
    fill(vae, "z48 4", Z48_GAINS)
    return vae.half()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the tiny Wan checkpoints.")
    parser.add_argument("folder", type=Path, help="where `t2v/`, `i2v/` and `ti2v/` are written")
    make(parser.parse_args().folder)
