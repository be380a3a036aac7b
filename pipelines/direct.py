"""Generating without a server: parameters from a model's defaults, and a control that nobody listens to."""

from __future__ import annotations

from pipelines.base import GenerationParams, ModelInfo, Stage


class Unheard:
    """A `pipelines.base.Control` that lets everything go on."""

    def progress(self, stage: Stage, step: int, steps: int, cost: float | None = None) -> None:
        """Nothing."""


def usual_params(info: ModelInfo, prompt: str, seed: int) -> GenerationParams:
    """What a request that gives only a prompt and a seed is resolved to."""
    defaults = info.defaults
    return GenerationParams(
        model=info.id,
        prompt=prompt,
        negative_prompt=defaults.negative_prompt,
        width=defaults.width,
        height=defaults.height,
        num_frames=defaults.num_frames,
        seed=seed,
        num_inference_steps=defaults.num_inference_steps,
        guidance_scale=defaults.guidance_scale,
        guidance_scale_2=defaults.guidance_scale_2,
        boundary_ratio=defaults.boundary_ratio,
        flow_shift=defaults.flow_shift,
        max_sequence_length=defaults.max_sequence_length,
    )
