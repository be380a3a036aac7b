"""Makes the tiny speech-to-video checkpoint: `python -m pipelines.tiny_wan.make_s2v FOLDER`.

Words and pictures are those of the shipped `t2v/`; ears and transformer are random. Its clips have 8 frames,
so that a second of speech takes several.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
from diffusers import AutoencoderKLWan
from torch import nn
from transformers import (
    AutoTokenizer,
    UMT5EncoderModel,
    Wav2Vec2Config,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2Model,
)

from pipelines.saving import save
from pipelines.tiny_wan.make import TEXT_DIM, TRANSFORMER_GAINS
from pipelines.tiny_wan.weights import gain_of, modulation, noise
from pipelines.wan_denoise import unipc
from pipelines.wan_s2v.components import WanS2VPipeline
from pipelines.wan_s2v.transformer import WanS2VTransformer3DModel

_SHIPPED = Path(__file__).parent / "t2v"
CLIP_FRAMES, MOTION_FRAMES = 8, 9

GAINS = TRANSFORMER_GAINS | {
    # Loud enough to be seen.
    "sound_injectors.*.attn.to_out.0.weight": 3.0,
    "sound_injectors.*.norm.linear.weight": 2.0,
}
"""Pattern of parameter names → factor; the last match counts."""


def make(folder: Path) -> None:
    """Write `s2v/` below `folder`."""
    save(pipeline(), folder / "s2v")


def pipeline() -> WanS2VPipeline:
    """Picture, voice and prompt to video, laid out like Wan2.2-S2V-14B."""
    return WanS2VPipeline(
        tokenizer=AutoTokenizer.from_pretrained(_SHIPPED / "tokenizer"),
        text_encoder=UMT5EncoderModel.from_pretrained(_SHIPPED / "text_encoder"),
        vae=AutoencoderKLWan.from_pretrained(_SHIPPED / "vae", dtype=torch.float16),
        scheduler=unipc(3.0),
        transformer=_transformer(),
        audio_encoder=_audio_encoder(),
        audio_extractor=Wav2Vec2FeatureExtractor(do_normalize=True, return_attention_mask=True),
        clip_frames=CLIP_FRAMES,
    )


def _transformer() -> WanS2VTransformer3DModel:
    model = WanS2VTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=24,
        text_dim=TEXT_DIM,
        freq_dim=64,
        ffn_dim=96,
        num_layers=2,
        audio_dim=16,
        audio_layers=3,
        audio_tokens=2,
        audio_inject_layers=(0, 1),
        motion_frames=MOTION_FRAMES,
    )
    _fill(model, "s2v", GAINS)
    return cast(WanS2VTransformer3DModel, model.half())


def _audio_encoder() -> Wav2Vec2Model:
    config = Wav2Vec2Config(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        conv_dim=[16] * 7,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=2,
        do_stable_layer_norm=True,
        feat_extract_norm="layer",
        conv_bias=True,
        apply_spec_augment=False,
        vocab_size=4,
    )
    model = Wav2Vec2Model(config).eval()
    _fill(model, "wav2vec2", {})
    return model


def _fill(model: nn.Module, seed: str, gains: Mapping[str, float]) -> None:
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_value(name, parameter, seed) * gain_of(name, gains))


def _value(name: str, parameter: torch.Tensor, seed: str) -> torch.Tensor:
    """Matrices that keep the variance of what passes, norms of 1, modulation near no change."""
    if name.endswith("scale_shift_table"):
        return modulation(name, parameter.shape, seed)
    if name.endswith(("bias", "token", "masked_spec_embed")):
        return 0.1 * noise(name, parameter.shape, seed)
    if parameter.dim() == 1 or name.endswith("original0"):
        return torch.ones(parameter.shape)
    if name == "segment_embedding.weight":
        return 0.3 * noise(name, parameter.shape, seed)
    return noise(name, parameter.shape, seed) / math.sqrt(math.prod(parameter.shape[1:]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the tiny speech-to-video checkpoint.")
    parser.add_argument("folder", type=Path, help="where `s2v/` is written")
    make(parser.parse_args().folder)
