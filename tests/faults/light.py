"""A pipeline that costs next to nothing to load and to run, so that workers can be lost by the dozen."""

from __future__ import annotations

from collections.abc import Generator
from fractions import Fraction

import torch

from pipelines.base import Chunk, Control, GenerationParams, Grid, ModelConfig, ModelDefaults, ModelInfo


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
        )

    def generate(self, params: GenerationParams, control: Control) -> Generator[Chunk]:
        for output in range(params.num_outputs):
            for step in range(params.num_inference_steps):
                control.progress("denoise", step + 1, params.num_inference_steps)
            for frame in range(params.num_frames):
                yield Chunk(torch.zeros(3, 1, params.height, params.width), output)
                control.progress("decode", frame + 1, params.num_frames)
