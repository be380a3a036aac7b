"""The parts of a speech-to-video checkpoint, as diffusers keeps those of a pipeline."""

from __future__ import annotations

from typing import Any

from diffusers import AutoencoderKLWan, DiffusionPipeline, UniPCMultistepScheduler, WanPipeline
from transformers import PreTrainedTokenizerBase, UMT5EncoderModel, Wav2Vec2FeatureExtractor, Wav2Vec2Model

from pipelines.wan_s2v.transformer import WanS2VTransformer3DModel

CLIP_FRAMES = 80
"""Frames of a clip of the official model."""
PRECISE = ("audio_encoder",)
"""Parts in float32, whatever the others are in."""


class WanS2VPipeline(DiffusionPipeline):  # type: ignore[misc]  # diffusers' pipelines are untyped
    """Loads, saves, places and offloads the parts; `pipelines.wan_s2v.speech` runs them."""

    model_cpu_offload_seq = "text_encoder->audio_encoder->transformer->vae"
    encode_prompt = WanPipeline.encode_prompt
    _get_t5_prompt_embeds = WanPipeline._get_t5_prompt_embeds

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        text_encoder: UMT5EncoderModel,
        vae: AutoencoderKLWan,
        scheduler: UniPCMultistepScheduler,
        transformer: WanS2VTransformer3DModel,
        audio_encoder: Wav2Vec2Model,
        audio_extractor: Wav2Vec2FeatureExtractor,
        clip_frames: int = CLIP_FRAMES,
    ) -> None:
        """`clip_frames`: frames of a clip, a multiple of 4."""
        super().__init__()
        parts: dict[str, Any] = {
            "tokenizer": tokenizer,
            "text_encoder": text_encoder,
            "vae": vae,
            "scheduler": scheduler,
            "transformer": transformer,
            "audio_encoder": audio_encoder,
            "audio_extractor": audio_extractor,
        }
        self.register_modules(**parts)
        self.register_to_config(clip_frames=clip_frames)
