"""Makes the tiny MiniMax-H3: `python -m pipelines.tiny_h3.make FOLDER`.

Every component of the released checkpoint, in its layout, with random weights: its pictures and sounds mean
nothing. Sizes are the smallest that keep what the code depends on: 17 frames to 5 latent ones, 800 samples to
one, a conditioner of more than 51 layers (its 50th is what conditions), both transformers.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderKLMiniMaxH3,
    AutoencoderKLMiniMaxH3Audio,
    MiniMaxH3Scheduler,
    MiniMaxH3Transformer3DModel,
)
from torch import nn
from transformers import Qwen2TokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.convert_slow_tokenizer import bytes_to_unicode

from pipelines.saving import save
from pipelines.tiny_wan.weights import noise

NAME = "tiny-h3"
LATENT_CHANNELS = 8
AUDIO_CHANNELS = 8
TEXT_DIM = 32
PATCH = 4
"""Side in pixels of what the conditioner sees as one patch; two by two of them are a token."""
VISION = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
QUIET = 0.25
"""Gain of the sound's last layer: its output is clipped at 1."""
CANVAS = {"canvas_short_edge": 64, "canvas_max_pixels": 64 * 128, "reference_image_short_edge": 64}
"""Where references are put; the released model's are 768, 768 x 1344 and 2048."""


def make(folder: Path) -> None:
    """Write the checkpoint into `folder`."""
    words = tokenizer()
    parts: dict[str, Any] = {
        "tokenizer": words,
        "text_encoder": conditioner(words),
        "transformer": transformer("first and last"),
        "transformer_ref": transformer("references"),
        "vae": video_vae(),
        "audio_vae": audio_vae(),
        "scheduler": MiniMaxH3Scheduler(shift=12.0),
        "audio_scheduler": MiniMaxH3Scheduler(shift=3.0),
    }
    for name, part in parts.items():
        save(part, folder / name)
    _write_processor(folder / "processor", words)
    index = {"_class_name": "MiniMaxH3ModularPipeline", "_blocks_class_name": "MiniMaxH3Blocks", **CANVAS}
    classes = {name: type(part) for name, part in parts.items()} | {"processor": None}
    for name, cls in classes.items():
        hint = (
            ["transformers", "Qwen3VLProcessor"]
            if cls is None
            else [cls.__module__.split(".")[0], cls.__name__]
        )
        index[name] = [*hint, {"pretrained_model_name_or_path": NAME, "subfolder": name, "type_hint": hint}]
    (folder / "modular_model_index.json").write_text(json.dumps(index, indent=2))


def tokenizer() -> Qwen2TokenizerFast:
    """A byte for a token, and Qwen's marks around pictures."""
    letters = {letter: number for number, letter in enumerate(bytes_to_unicode().values())}
    return Qwen2TokenizerFast(vocab=letters, merges=[], additional_special_tokens=list(VISION))


def conditioner(words: Qwen2TokenizerFast) -> nn.Module:
    """A Qwen3-VL of 52 layers, one more than are needed."""
    ids = dict(zip(VISION, words.convert_tokens_to_ids(list(VISION)), strict=True))
    text = {
        "vocab_size": len(words),
        "hidden_size": TEXT_DIM,
        "intermediate_size": 32,
        "num_hidden_layers": 52,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_heads": 2,
        "patch_size": PATCH,
        "out_hidden_size": TEXT_DIM,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
    return _filled(Qwen3VLForConditionalGeneration(config), "conditioner")


def transformer(seed: str) -> nn.Module:
    model = MiniMaxH3Transformer3DModel(
        num_attention_heads=2,
        attention_head_dim=16,
        hidden_size=32,
        num_layers=2,
        num_refiner_layers=1,
        ffn_dim=48,
        in_channels=LATENT_CHANNELS,
        audio_in_channels=AUDIO_CHANNELS,
        text_dim=TEXT_DIM,
        freq_dim=32,
        time_embed_hidden_dim=32,
        time_embed_dim=32,
        rope_freq_dim=2,
    )
    return _filled(model, seed)


def video_vae() -> nn.Module:
    model = AutoencoderKLMiniMaxH3(
        latent_channels=LATENT_CHANNELS,
        block_out_channels=(8, 8, 8, 16),
        layers_per_block=1,
        spatial_downsample_factors=(2, 2, 2, 2),
        temporal_downsample_factors=(1, 2, 2, 1),
        norm_num_groups=4,
        decoder_num_layers=2,
        decoder_num_attention_heads=2,
        decoder_attention_head_dim=16,
        decoder_num_register_tokens=2,
        decoder_ffn_mult=2,
        latents_mean=[0.1 * (-1) ** channel for channel in range(LATENT_CHANNELS)],
        latents_std=[1.0 + 0.05 * channel for channel in range(LATENT_CHANNELS)],
    )
    return _filled(model, "pictures")


def audio_vae() -> nn.Module:
    model = AutoencoderKLMiniMaxH3Audio(
        encoder_dim=4,
        encoder_rates=(8, 10, 10),
        latent_dim=32,
        latent_channels=AUDIO_CHANNELS,
        num_attention_heads=2,
        decoder_dim=8,
        decoder_rates=(10, 10, 8),
        decoder_kernel_sizes=(20, 20, 16),
        resblock_kernel_sizes=(3,),
        resblock_dilation_sizes=((1,),),
        latents_mean=[0.05 * channel for channel in range(AUDIO_CHANNELS)],
        latents_std=[1.0] * AUDIO_CHANNELS,
    )
    return _filled(model, "sound")


def _write_processor(folder: Path, words: Qwen2TokenizerFast) -> None:
    """As transformers would save it, but for the need of torchvision, which its video side has."""
    words.save_pretrained(folder)
    sides = {
        "patch_size": PATCH,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5] * 3,
        "image_std": [0.5] * 3,
        "size": {"shortest_edge": 256, "longest_edge": 2048},
    }
    config = {
        "processor_class": "Qwen3VLProcessor",
        "image_processor": {"image_processor_type": "Qwen2VLImageProcessor", **sides},
        "video_processor": {
            "video_processor_type": "Qwen3VLVideoProcessor",
            **sides,
            "size": {"shortest_edge": 256, "longest_edge": 8192},
            "cap_pixels_per_frame": False,
        },
    }
    (folder / "processor_config.json").write_text(json.dumps(config, indent=2))


def _filled(model: nn.Module, seed: str) -> nn.Module:
    """Draw every parameter by its name, so that the same weights come out everywhere.

    Matrices keep the variance of what passes through them; gains of norms and other vectors are about 1.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_value(name, noise(name, parameter.shape, seed)))
    return model.eval().half()


def _value(name: str, drawn: torch.Tensor) -> torch.Tensor:
    if name.endswith("bias"):
        return 0.1 * drawn
    if drawn.numel() == max(drawn.shape):  # gains
        gain = 0.1 * drawn if name.endswith((".alpha", ".beta")) else 1 + 0.1 * drawn
        return gain * (QUIET if name.startswith("decoder.conv_post") else 1)
    return drawn / math.sqrt(drawn[0].numel())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the tiny MiniMax-H3.")
    parser.add_argument("folder", type=Path, help="where it is written")
    make(parser.parse_args().folder)
