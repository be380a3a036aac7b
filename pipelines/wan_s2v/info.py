"""What a loaded speech-to-video model says of itself."""

from __future__ import annotations

from typing import Any

from pipelines.base import Grid, ModelConfig, ModelInfo, SoundFormat
from pipelines.wan_defaults import ONE_EXPERT, defaults_of
from pipelines.wan_s2v.clips import DROPPED
from pipelines.wan_s2v.given import SOUND_CHANNELS, SOUND_RATE
from pipelines.wan_s2v.motion import PACKS, PATCH

NEGATIVE_PROMPT = (
    "画面模糊，最差质量，画面模糊，细节模糊不清，情绪激动剧烈，手快速抖动，字幕，丑陋的，残缺的，多余的手指，"
    "画得不好的手部，画得不好的脸部，畸形的，毁容的，形态畸形的肢体，手指融合，静止不动的画面，杂乱的背景，"
    "三条腿，背景人很多，倒着走"
)
"""The official text of S2V's `sample_neg_prompt`."""


def info_of(pipe: Any, config: ModelConfig) -> ModelInfo:
    """Its use of references, its grid and its defaults.

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
        defaults=defaults_of(pipe, config, NEGATIVE_PROMPT),
        limits=config.limits,
        audio="required",
        video="optional",
        sound=SoundFormat(SOUND_RATE, SOUND_CHANNELS),
        unused=dict(ONE_EXPERT),
    )
