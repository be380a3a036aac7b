"""A pipeline that costs next to nothing to load and to run, so that workers can be lost by the dozen.

With FAULT_LIGHT=sound in the environment it makes a tone of 440 Hz beside its frames.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator
from fractions import Fraction

import torch

from pipelines.base import (
    Chunk,
    Control,
    GenerationParams,
    Grid,
    ModelConfig,
    ModelDefaults,
    ModelInfo,
    Sound,
    SoundFormat,
)

SOUND = SoundFormat(16_000, 1)


class Light:
    """Grey frames, one a chunk, after `num_inference_steps` steps that do nothing."""

    def __init__(self, config: ModelConfig) -> None:
        defaults = ModelDefaults(64, 32, 5, Fraction(16), 2, 1.0, None, None, 5.0, "", 64)
        self.info = ModelInfo(
            id=config.id,
            aliases=config.aliases,
            kind="light",
            task="t2v",
            image="none",
            last_image=False,
            grid=Grid(4, 16),
            defaults=defaults,
            limits=config.limits,
            sound=SOUND if os.environ["FAULT_LIGHT"] == "sound" else None,
        )

    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk | Sound]:
        for output in range(params.num_outputs):
            for step in range(params.num_inference_steps):
                control.progress("denoise", step + 1, params.num_inference_steps)
            for frame in range(params.num_frames):
                yield Chunk(torch.zeros(3, 1, params.height, params.width), output)
                if frame == 1 and self.info.sound is not None:
                    yield _tone(self.info.sound, output)
                control.progress("decode", frame + 1, params.num_frames)


def _tone(form: SoundFormat, output: int) -> Sound:
    """A second of it."""
    now = torch.arange(form.sample_rate) / form.sample_rate
    return Sound(torch.sin(2 * math.pi * 440 * now).expand(form.channels, -1), form.sample_rate, output)
