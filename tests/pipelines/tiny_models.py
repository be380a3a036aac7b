"""Configurations of the random checkpoints, pictures for them, and a control that records."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import torch
from PIL import Image

import pipelines.tiny_wan
from pipelines.base import Chunk, GenerationParams, ModelConfig, ModelLimits, Pipeline, Stage
from pipelines.direct import usual_params
from pipelines.errors import Cancelled

TINY = Path(pipelines.tiny_wan.__file__).parent


def tiny_config(task: str, **changes: object) -> ModelConfig:
    """A configuration of the random checkpoint for `task`."""
    config = ModelConfig(
        id=f"tiny-{task}",
        kind="wan",
        path=str(TINY / task),
        dtype="float32",
        width=64,
        height=32,
        num_frames=5,
        fps=Fraction(16),
        num_inference_steps=3,
        guidance_scale=4.0,
        limits=ModelLimits(max_pixels=10**6, max_num_frames=100),
        max_sequence_length=32,
    )
    return replace(config, **changes)  # type: ignore[arg-type]  # the names are checked by replace itself


@dataclass
class Recorder:
    """A control that keeps what it is told and cancels at a given moment."""

    cancel_at: tuple[Stage, int] | None = None
    calls: list[tuple[Stage, int, int]] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def progress(self, stage: Stage, step: int, steps: int, cost: float | None = None) -> None:
        self.calls.append((stage, step, steps))
        if cost is not None:
            self.costs.append(cost)
        if self.cancel_at == (stage, step):
            raise Cancelled("by the test")


def picture(path: Path, width: int, height: int, *, turned: bool = False) -> Path:
    """Write a picture with red on one side and blue on the other; `turned` exchanges them."""
    left, right = ((255, 0, 0), (0, 0, 255))[:: -1 if turned else 1]
    image = Image.new("RGB", (width, height), right)
    image.paste(left, (0, 0, width // 2, height))
    image.save(path)
    return path


def params_for(model: Pipeline, **changes: object) -> GenerationParams:
    """Parameters from the model's defaults and the given changes."""
    base = replace(usual_params(model.info, "a red circle", seed=7), negative_prompt="blurry")
    return replace(base, **changes)  # type: ignore[arg-type]


def frames_of(model: Pipeline, wanted: GenerationParams, output: int = 0) -> torch.Tensor:
    """All frames (3, T, H, W) of one output."""
    parts = list(model.generate(wanted, Recorder()))
    chunks = [part for part in parts if isinstance(part, Chunk)]
    return torch.cat([chunk.frames for chunk in chunks if chunk.output == output], dim=1)
