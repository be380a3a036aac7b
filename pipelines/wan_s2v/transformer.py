"""Wan 2.2's speech-to-video transformer, built of diffusers' Wan parts."""

from __future__ import annotations

from math import prod
from typing import ClassVar, cast

import torch
from diffusers.configuration_utils import ConfigMixin, register_to_config
from diffusers.models.attention import AttentionMixin
from diffusers.models.cache_utils import CacheMixin
from diffusers.models.modeling_outputs import Transformer2DModelOutput
from diffusers.models.modeling_utils import ModelMixin
from diffusers.models.normalization import FP32LayerNorm
from diffusers.models.transformers.transformer_wan import WanTimeTextImageEmbedding
from torch import nn

from pipelines.wan_s2v.block import TwoTimesBlock
from pipelines.wan_s2v.motion import MotionPacker
from pipelines.wan_s2v.positions import SpanRotaryEmbed, clip_span, reference_span
from pipelines.wan_s2v.sound import SoundEncoder, SoundInjector

INJECT_LAYERS = (0, 4, 8, 12, 16, 20, 24, 27, 30, 33, 36, 39)
NOISE, REFERENCE, MOTION = range(3)
"""Rows of `segment_embedding`: what a token is."""


class WanS2VTransformer3DModel(ModelMixin, ConfigMixin, AttentionMixin, CacheMixin):  # type: ignore[misc]
    """Denoises a clip, given its sound, a reference picture, what went before and poses.

    One sequence holds the clip's tokens, then the reference picture's and those of the packed motion, which
    stand at time 0. After each block of `audio_inject_layers` the clip's tokens attend to their sound.

    `motion_frames`: frames, not latent ones, that go before a clip; `audio_layers`: hidden states that the
    sound's encoder has, and `audio_dim` their size; `audio_tokens`: for each latent frame. The rest as in
    diffusers' `WanTransformer3DModel`.
    """

    _supports_gradient_checkpointing = False
    _no_split_modules: ClassVar = ["TwoTimesBlock"]
    _repeated_blocks: ClassVar = ["TwoTimesBlock"]
    _skip_layerwise_casting_patterns: ClassVar = ["patch_embedding", "condition_embedder", "norm"]
    _keep_in_fp32_modules: ClassVar = [
        "rope",
        "time_embedder",
        "scale_shift_table",
        "norm1",
        "norm2",
        "norm3",
    ]

    @register_to_config  # type: ignore[untyped-decorator]
    def __init__(
        self,
        patch_size: tuple[int, int, int] = (1, 2, 2),
        num_attention_heads: int = 40,
        attention_head_dim: int = 128,
        in_channels: int = 16,
        out_channels: int = 16,
        text_dim: int = 4096,
        freq_dim: int = 256,
        ffn_dim: int = 13824,
        num_layers: int = 40,
        cross_attn_norm: bool = True,
        eps: float = 1e-6,
        rope_max_seq_len: int = 1024,
        pose_channels: int = 16,
        audio_dim: int = 1024,
        audio_layers: int = 25,
        audio_tokens: int = 4,
        audio_inject_layers: tuple[int, ...] = INJECT_LAYERS,
        motion_frames: int = 73,
    ) -> None:
        super().__init__()
        dim = num_attention_heads * attention_head_dim
        self.rope = SpanRotaryEmbed(attention_head_dim, patch_size, rope_max_seq_len)
        self.patch_embedding = nn.Conv3d(in_channels, dim, kernel_size=patch_size, stride=patch_size)
        self.pose_embedding = nn.Conv3d(pose_channels, dim, kernel_size=patch_size, stride=patch_size)
        self.motion_packer = MotionPacker(in_channels, dim)
        self.segment_embedding = nn.Embedding(3, dim)
        self.condition_embedder = WanTimeTextImageEmbedding(dim, freq_dim, 6 * dim, text_dim)
        self.sound_encoder = SoundEncoder(audio_layers, audio_dim, dim, audio_tokens)
        self.sound_injectors = nn.ModuleDict(
            {str(layer): SoundInjector(dim, num_attention_heads) for layer in audio_inject_layers}
        )
        self.blocks = nn.ModuleList(
            TwoTimesBlock(dim, ffn_dim, num_attention_heads, cross_attn_norm=cross_attn_norm, eps=eps)
            for _ in range(num_layers)
        )
        self.norm_out = FP32LayerNorm(dim, eps, elementwise_affine=False)
        self.proj_out = nn.Linear(dim, out_channels * prod(patch_size))
        self.scale_shift_table = nn.Parameter(torch.randn(1, 2, dim) / dim**0.5)

    def forward(
        self,
        hidden_states: torch.Tensor,
        timestep: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        audio: torch.Tensor,
        reference_latents: torch.Tensor,
        motion_latents: torch.Tensor | None = None,
        pose_latents: torch.Tensor | None = None,
        return_dict: bool = True,
    ) -> tuple[torch.Tensor] | Transformer2DModelOutput:
        """Predict the flow of `hidden_states` (B, C, t, H, W), normalized latents; H and W multiples of 8.

        `timestep` (B,), 0 … 1000. `encoder_hidden_states` (B, L, text_dim). `audio`
        (B, audio_layers, audio_dim, 4 t), one column a frame. `reference_latents` (B, C, 1, H, W).
        `motion_latents` (B, C, m, H, W), the frames before the clip; None: there are none. `pose_latents` as
        `hidden_states`; None: no poses. Returns `sample`, like `hidden_states`.
        """
        batch, _, frames, height, width = hidden_states.shape
        whole, sounds = self._sound(audio)
        clip = self._clip(hidden_states, pose_latents)
        given, spans = self._given(reference_latents, motion_latents)
        rows, columns = height // self.config.patch_size[1], width // self.config.patch_size[2]
        rotary = self.rope([clip_span(frames, rows, columns), *spans])
        temb, times, text = self._times(timestep, encoder_hidden_states)

        boundary = clip.shape[1]
        x = torch.cat([clip, given], dim=1)
        for layer, block in enumerate(self.blocks):
            x = block(x, text, times, rotary, boundary)
            if str(layer) in self.sound_injectors:
                told = self.sound_injectors[str(layer)](x[:, :boundary], whole, sounds)
                x = torch.cat([told, x[:, boundary:]], dim=1)
        shift, scale = (self.scale_shift_table + temb.unsqueeze(1)).chunk(2, dim=1)
        x = x[:, :boundary]
        x = self.proj_out((self.norm_out(x.float()) * (1 + scale) + shift).type_as(x))
        sample = _unpatched(x, (batch, frames, rows, columns), self.config.patch_size)
        return Transformer2DModelOutput(sample=sample) if return_dict else (sample,)

    def _sound(self, audio: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The sound of the clip's latent frames. The encoder looks back over the frames of the motion."""
        before = self.config.motion_frames
        whole, tokens = self.sound_encoder(
            torch.cat([audio[..., :1].expand(-1, -1, -1, before), audio], dim=-1)
        )
        latents_before = (before + 3) // 4
        return whole[:, latents_before:], tokens[:, latents_before:]

    def _clip(self, latents: torch.Tensor, poses: torch.Tensor | None) -> torch.Tensor:
        x = self.patch_embedding(latents)
        # No pose is a latent of zeros, of which the bias is left.
        bias = cast(torch.Tensor, self.pose_embedding.bias).view(1, -1, 1, 1, 1)
        x = x + (bias if poses is None else self.pose_embedding(poses))
        return _tokens(x) + self.segment_embedding.weight[NOISE]

    def _given(
        self, reference: torch.Tensor, motion: torch.Tensor | None
    ) -> tuple[torch.Tensor, list[object]]:
        embedded = self.patch_embedding(reference)
        rows, columns = embedded.shape[3:]
        tokens = [_tokens(embedded) + self.segment_embedding.weight[REFERENCE]]
        spans: list[object] = [reference_span(rows, columns)]
        if motion is not None:
            tokens.append(self.motion_packer(motion) + self.segment_embedding.weight[MOTION])
            spans += self.motion_packer.spans(rows, columns)
        return torch.cat(tokens, dim=1), spans

    def _times(
        self, timestep: torch.Tensor, text: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The clip's embedded time (B, D), the modulations of both times (B, 2, 6, D), the embedded text."""
        batch = timestep.shape[0]
        both = torch.cat([timestep, timestep.new_zeros(1)])
        temb, modulation, text, _ = self.condition_embedder(both, text)
        modulation = modulation.unflatten(1, (6, -1))
        zero = modulation[batch:].expand(batch, -1, -1)
        return temb[:batch], torch.stack([modulation[:batch], zero], dim=1), text


def _tokens(embedded: torch.Tensor) -> torch.Tensor:
    """(B, D, t, h, w) → (B, t · h · w, D)."""
    return embedded.flatten(2).transpose(1, 2)


def _unpatched(x: torch.Tensor, grid: tuple[int, int, int, int], patch: tuple[int, int, int]) -> torch.Tensor:
    batch, frames, rows, columns = grid
    x = x.reshape(batch, frames, rows, columns, *patch, -1).permute(0, 7, 1, 4, 2, 5, 3, 6)
    return x.flatten(6, 7).flatten(4, 5).flatten(2, 3)
