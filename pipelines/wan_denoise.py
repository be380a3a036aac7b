"""Wan's denoising loop over diffusers' transformers and scheduler.

Ours, because `WanPipeline.__call__` guides both experts or neither, holds `boundary_ratio` in the pipeline's
configuration, and takes no cancel between the passes (docs/decisions/2026-11-29-denoising-loop.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from diffusers import UniPCMultistepScheduler

from pipelines.base import GenerationParams
from pipelines.wan_condition import Condition


@dataclass(frozen=True, slots=True)
class Expert:
    """One transformer and the guidance of the steps that it rules; a scale of at most 1 needs one pass."""

    transformer: Any
    guidance_scale: float

    @property
    def guided(self) -> bool:
        return self.guidance_scale > 1

    @property
    def passes(self) -> int:
        """Calls of the transformer that one step takes."""
        return 2 if self.guided else 1


@dataclass(frozen=True, slots=True)
class Embeddings:
    """The text encoder's output, (1, L, D); `negative` is None when no expert is guided."""

    prompt: torch.Tensor
    negative: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class Experts:
    """High-noise and low-noise expert; the high one takes the timesteps from `boundary` (0 … 1000) up."""

    high: Expert
    low: Expert | None
    boundary: float

    def at(self, t: float) -> Expert:
        return self.high if self.low is None or t >= self.boundary else self.low

    @property
    def guided(self) -> bool:
        return self.high.guided or (self.low is not None and self.low.guided)


def unipc(flow_shift: float) -> UniPCMultistepScheduler:
    """The scheduler that checkpoints of Wan come with."""
    return UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=flow_shift
    )


def scheduler_for(
    params: GenerationParams, scheduler: Any, device: torch.device, sigmas: Sequence[float] | None = None
) -> Any:
    """A scheduler of this request's own: its step count and shift never reach another request.

    `sigmas`: the noise of each step, from 1 down, before the shift; None: as diffusers spaces them.
    """
    name = "flow_shift" if "flow_shift" in scheduler.config else "shift"
    own = type(scheduler).from_config(scheduler.config, **{name: params.flow_shift})
    given = None if sigmas is None else np.array(sigmas)
    own.set_timesteps(params.num_inference_steps, device=device, sigmas=given)
    own.set_begin_index(0)
    return own


def denoise(
    latents: torch.Tensor,
    experts: Experts,
    embeddings: Embeddings,
    condition: Condition,
    scheduler: Any,
    step_done: Callable[[int, float], None],
) -> torch.Tensor:
    """Noise (1, C, T, H, W), float32 → normalized latents of the same kind.

    `step_done(n, cost)` is called after each of the scheduler's steps, with the share of all passes that is
    done; what it raises ends the loop.
    """
    # One copy of the times on the host: choosing the expert must not wait for the device.
    times: list[float] = scheduler.timesteps.tolist()
    passes = list(accumulate(experts.at(time).passes for time in times))
    for step, (time, t) in enumerate(zip(times, scheduler.timesteps, strict=True)):
        prediction = _predict(experts.at(time), embeddings, *condition.inputs(latents, t))
        latents = scheduler.step(prediction, t, latents, return_dict=False)[0]
        step_done(step + 1, passes[step] / passes[-1])
    return condition.finish(latents)


def _predict(
    expert: Expert, embeddings: Embeddings, hidden_states: torch.Tensor, timestep: torch.Tensor
) -> torch.Tensor:
    hidden_states = hidden_states.to(expert.transformer.dtype)
    prediction = _forward(expert, "cond", hidden_states, timestep, embeddings.prompt)
    if not expert.guided:
        return prediction
    assert embeddings.negative is not None
    negative = _forward(expert, "uncond", hidden_states, timestep, embeddings.negative)
    return negative + expert.guidance_scale * (prediction - negative)


def _forward(
    expert: Expert, context: str, hidden_states: torch.Tensor, timestep: torch.Tensor, text: torch.Tensor
) -> torch.Tensor:
    with expert.transformer.cache_context(context):
        output: tuple[torch.Tensor] = expert.transformer(
            hidden_states=hidden_states,
            timestep=timestep,
            encoder_hidden_states=text.to(hidden_states.dtype),
            return_dict=False,
        )
    return output[0]
