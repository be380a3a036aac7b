"""The denoising loop of one clip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pipelines.wan_denoise import Embeddings


def official_sigmas(steps: int) -> list[float]:
    """The noise of each step before the shift: from 0.999 evenly down towards 0.

    diffusers goes from 1 towards 0.001; the official solver takes the ends from its table of 1000 times.
    """
    return [0.999 * (1 - step / steps) for step in range(steps)]


@dataclass(frozen=True, slots=True)
class Given:
    """What a clip is told, but for the text: arguments of the transformer."""

    audio: torch.Tensor
    reference_latents: torch.Tensor
    motion_latents: torch.Tensor | None
    pose_latents: torch.Tensor | None

    def without_sound(self) -> Given:
        """For the pass that guidance leads away from."""
        return Given(
            torch.zeros_like(self.audio), self.reference_latents, self.motion_latents, self.pose_latents
        )

    def arguments(self, dtype: torch.dtype) -> dict[str, torch.Tensor | None]:
        """By name, as the transformer takes them."""
        parts = {name: getattr(self, name) for name in type(self).__dataclass_fields__}
        return {name: None if part is None else part.to(dtype) for name, part in parts.items()}


def denoise_clip(
    latents: torch.Tensor,
    transformer: Any,
    guidance_scale: float,
    embeddings: Embeddings,
    given: Given,
    scheduler: Any,
    step_done: Callable[[int], None],
) -> torch.Tensor:
    """Noise (1, C, t, H, W), float32 → normalized latents of the same kind.

    A guidance of at most 1 takes one pass a step. `step_done(n)` is called after each step; what it raises
    ends the loop.
    """
    dtype = transformer.dtype
    passes = [("cond", embeddings.prompt, given.arguments(dtype))]
    if embeddings.negative is not None:
        passes.append(("uncond", embeddings.negative, given.without_sound().arguments(dtype)))
    for step, t in enumerate(scheduler.timesteps):
        made = []
        for context, text, arguments in passes:
            with transformer.cache_context(context):
                made += transformer(
                    hidden_states=latents.to(dtype),
                    timestep=t.expand(1),
                    encoder_hidden_states=text.to(dtype),
                    return_dict=False,
                    **arguments,
                )
        prediction = made[-1] + guidance_scale * (made[0] - made[-1]) if len(made) == 2 else made[0]
        latents = scheduler.step(prediction, t, latents, return_dict=False)[0]
        step_done(step + 1)
    return latents
