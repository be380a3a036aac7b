"""What a loaded speech-to-video model says of itself."""

from __future__ import annotations

from typing import Any

from pipelines.base import Grid, ModelConfig, ModelDefaults, ModelInfo, SoundFormat
from pipelines.errors import LoadFailed
from pipelines.wan_s2v.clips import DROPPED
from pipelines.wan_s2v.given import SOUND_CHANNELS, SOUND_RATE
from pipelines.wan_s2v.motion import PACKS, PATCH

NEGATIVE_PROMPT = (
    "画面模糊，最差质量，画面模糊，细节模糊不清，情绪激动剧烈，手快速抖动，字幕，丑陋的，残缺的，多余的手指，"
    "画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画面，杂乱的背景，"
    "三条腿，背景人很多，倒着走"
)
"""The official text of S2V's `sample_neg_prompt`."""
MAX_SEQUENCE_LENGTH = 512
_ONE_EXPERT = dict.fromkeys(("guidance_scale_2", "boundary_ratio"), "has one expert, it needs two")


def info_of(pipe: Any, config: ModelConfig) -> ModelInfo:
    """
    Raises:
        LoadFailed: a setting that the checkpoint has no use for, or one that is missing.
    """
    clip = pipe.config.clip_frames
    spatial = pipe.vae.config.scale_factor_spatial
    farthest = max(stride for _, stride in PACKS)
    return ModelInfo(
        id=config.id,
        aliases=config.aliases,
        description=config.description,
        kind=config.kind,
        task="s2v",
        image="required",
        last_image=False,
        # The coarsest of the motion's tokens is 64 pixels wide.
        grid=Grid(temporal=clip, spatial=spatial * PATCH * farthest, offset=clip - DROPPED),
        defaults=_defaults(pipe, config),
        limits=config.limits,
        audio="required",
        video="optional",
        sound=SoundFormat(SOUND_RATE, SOUND_CHANNELS),
        unused=_ONE_EXPERT,
    )


def _defaults(pipe: Any, config: ModelConfig) -> ModelDefaults:
    if config.guidance_scale is None:
        raise LoadFailed(f"model {config.id}: guidance_scale is missing; the checkpoint does not tell it")
    if config.guidance_scale_2 is not None or config.boundary_ratio is not None:
        raise LoadFailed(
            f"model {config.id}: guidance_scale_2 and boundary_ratio need two experts; it has one"
        )
    shift, negative, length = config.flow_shift, config.negative_prompt, config.max_sequence_length
    return ModelDefaults(
        width=config.width,
        height=config.height,
        num_frames=config.num_frames,
        fps=config.fps,
        num_inference_steps=config.num_inference_steps,
        guidance_scale=config.guidance_scale,
        guidance_scale_2=None,
        boundary_ratio=None,
        flow_shift=pipe.scheduler.config.flow_shift if shift is None else shift,
        negative_prompt=NEGATIVE_PROMPT if negative is None else negative,
        max_sequence_length=MAX_SEQUENCE_LENGTH if length is None else length,
    )
