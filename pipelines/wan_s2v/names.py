"""The official checkpoint's names of weights, and ours: the key map, both ways by construction.

Official: the files of Wan-AI/Wan2.2-S2V-14B. Ours: `WanS2VTransformer3DModel`, and transformers' UMT5. The
VAE goes by diffusers' own map.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch

Rules = tuple[tuple[str, str], ...]

_ATTENTION = {"q": "to_q", "k": "to_k", "v": "to_v", "o": "to_out.0", "norm_q": "norm_q", "norm_k": "norm_k"}
_WHOLE = r"(?P<end>\.weight|\.bias)"


def _attention(official: str, ours: str) -> Rules:
    return tuple(
        (rf"{official}\.{name}{_WHOLE}", rf"{ours}.{named}\g<end>") for name, named in _ATTENTION.items()
    )


TRANSFORMER: Rules = (
    (rf"patch_embedding{_WHOLE}", r"patch_embedding\g<end>"),
    (rf"cond_encoder{_WHOLE}", r"pose_embedding\g<end>"),
    (r"trainable_cond_mask\.weight", "segment_embedding.weight"),
    (rf"text_embedding\.0{_WHOLE}", r"condition_embedder.text_embedder.linear_1\g<end>"),
    (rf"text_embedding\.2{_WHOLE}", r"condition_embedder.text_embedder.linear_2\g<end>"),
    (rf"time_embedding\.0{_WHOLE}", r"condition_embedder.time_embedder.linear_1\g<end>"),
    (rf"time_embedding\.2{_WHOLE}", r"condition_embedder.time_embedder.linear_2\g<end>"),
    (rf"time_projection\.1{_WHOLE}", r"condition_embedder.time_proj\g<end>"),
    *_attention(r"blocks\.(?P<n>\d+)\.self_attn", r"blocks.\g<n>.attn1"),
    *_attention(r"blocks\.(?P<n>\d+)\.cross_attn", r"blocks.\g<n>.attn2"),
    (rf"blocks\.(?P<n>\d+)\.norm3{_WHOLE}", r"blocks.\g<n>.norm2\g<end>"),
    (rf"blocks\.(?P<n>\d+)\.ffn\.0{_WHOLE}", r"blocks.\g<n>.ffn.net.0.proj\g<end>"),
    (rf"blocks\.(?P<n>\d+)\.ffn\.2{_WHOLE}", r"blocks.\g<n>.ffn.net.2\g<end>"),
    (r"blocks\.(?P<n>\d+)\.modulation", r"blocks.\g<n>.scale_shift_table"),
    (rf"head\.head{_WHOLE}", r"proj_out\g<end>"),
    (r"head\.modulation", "scale_shift_table"),
    (rf"frame_packer\.(?P<n>proj|proj_2x|proj_4x){_WHOLE}", r"motion_packer.\g<n>\g<end>"),
    (r"casual_audio_encoder\.weights", "sound_encoder.layer_weights"),
    (r"casual_audio_encoder\.encoder\.padding_tokens", "sound_encoder.padding_token"),
    (rf"casual_audio_encoder\.encoder\.conv1_local\.conv{_WHOLE}", r"sound_encoder.conv_tokens\g<end>"),
    (rf"casual_audio_encoder\.encoder\.conv1_global\.conv{_WHOLE}", r"sound_encoder.conv_whole\g<end>"),
    (rf"casual_audio_encoder\.encoder\.conv(?P<n>[23])\.conv{_WHOLE}", r"sound_encoder.conv_\g<n>\g<end>"),
    (rf"casual_audio_encoder\.encoder\.final_linear{_WHOLE}", r"sound_encoder.proj_whole\g<end>"),
    *_attention(r"audio_injector\.injector\.(?P<n>\d+)", r"sound_injectors.<\g<n>>.attn"),
    (
        rf"audio_injector\.injector_adain_layers\.(?P<n>\d+)\.linear{_WHOLE}",
        r"sound_injectors.<\g<n>>.norm.linear\g<end>",
    ),
)
"""Whole names, as regular expressions → ours. `<3>` is the block after which the fourth injector stands."""

TEXT_ENCODER: Rules = (
    (r"token_embedding\.weight", "shared.weight"),
    (r"norm\.weight", "encoder.final_layer_norm.weight"),
    (r"blocks\.(?P<n>\d+)\.norm1\.weight", r"encoder.block.\g<n>.layer.0.layer_norm.weight"),
    (r"blocks\.(?P<n>\d+)\.norm2\.weight", r"encoder.block.\g<n>.layer.1.layer_norm.weight"),
    (
        r"blocks\.(?P<n>\d+)\.attn\.(?P<m>[qkvo])\.weight",
        r"encoder.block.\g<n>.layer.0.SelfAttention.\g<m>.weight",
    ),
    (
        r"blocks\.(?P<n>\d+)\.pos_embedding\.embedding\.weight",
        r"encoder.block.\g<n>.layer.0.SelfAttention.relative_attention_bias.weight",
    ),
    (r"blocks\.(?P<n>\d+)\.ffn\.gate\.0\.weight", r"encoder.block.\g<n>.layer.1.DenseReluDense.wi_0.weight"),
    (r"blocks\.(?P<n>\d+)\.ffn\.fc1\.weight", r"encoder.block.\g<n>.layer.1.DenseReluDense.wi_1.weight"),
    (r"blocks\.(?P<n>\d+)\.ffn\.fc2\.weight", r"encoder.block.\g<n>.layer.1.DenseReluDense.wo.weight"),
)
"""umT5's encoder → transformers' `UMT5EncoderModel`."""

_FLATTENED = ("sound_encoder.layer_weights", "sound_encoder.padding_token")
"""Vectors that are (1, n, 1, 1) or (1, 1, 1, n) there."""


def renamed(name: str, rules: Rules) -> str:
    """Our name of an official weight.

    Raises:
        ValueError: no rule knows the name.
    """
    for pattern, ours in rules:
        if (match := re.fullmatch(pattern, name)) is not None:
            return match.expand(ours)
    raise ValueError(f"{name} is the name of no weight of the official checkpoint")


def transformer_name(name: str, inject_layers: Sequence[int]) -> str:
    """Our name of a weight of the official transformer, whose injectors stand after `inject_layers`."""
    ours = renamed(name, TRANSFORMER)
    return re.sub(r"<(\d+)>", lambda match: str(inject_layers[int(match[1])]), ours)


def transformer_weights(
    official: Mapping[str, torch.Tensor], inject_layers: Sequence[int]
) -> dict[str, torch.Tensor]:
    """A state of the official transformer as ours; the tensors are shared."""
    found = {transformer_name(name, inject_layers): tensor for name, tensor in official.items()}
    return {name: each.flatten() if name in _FLATTENED else each for name, each in found.items()}


def text_encoder_weights(official: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A state of the official text encoder as transformers'; the tensors are shared."""
    return {renamed(name, TEXT_ENCODER): tensor for name, tensor in official.items()}
