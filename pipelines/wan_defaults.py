"""What a checkpoint of the Wan family does where a request says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from pipelines.base import ModelConfig, ModelDefaults
from pipelines.errors import LoadFailed

ONE_EXPERT: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("guidance_scale_2", "boundary_ratio"), "has one expert, it needs two")
)
"""What a model with one expert does not use: `ModelInfo.unused`."""

_MAX_SEQUENCE_LENGTH = 512
"""Tokens that the text encoder was used with."""

T = TypeVar("T")


def boundary_of(pipe: Any) -> float | None:
    """Where the checkpoint's two experts change over; None where it has one."""
    boundary: float | None = getattr(pipe.config, "boundary_ratio", None)
    return boundary


def defaults_of(pipe: Any, config: ModelConfig, negative_prompt: str) -> ModelDefaults:
    """The configuration's values, then the checkpoint's, then the official ones.

    Raises:
        LoadFailed: a setting that the checkpoint has no use for, or one that is missing.
    """
    scheduler = pipe.scheduler.config
    low, ratio, boundary = config.guidance_scale_2, config.boundary_ratio, boundary_of(pipe)
    if config.guidance_scale is None:
        raise LoadFailed(f"model {config.id}: guidance_scale is missing; the checkpoint does not tell it")
    if boundary is None and (low is not None or ratio is not None):
        raise LoadFailed(
            f"model {config.id}: guidance_scale_2 and boundary_ratio need two experts; it has one"
        )
    return ModelDefaults(
        width=config.width,
        height=config.height,
        num_frames=config.num_frames,
        fps=config.fps,
        num_inference_steps=config.num_inference_steps,
        guidance_scale=config.guidance_scale,
        guidance_scale_2=None if boundary is None else _or(low, config.guidance_scale),
        boundary_ratio=_or(ratio, boundary),
        flow_shift=_or(config.flow_shift, scheduler.get("flow_shift", scheduler.get("shift"))),
        negative_prompt=_or(config.negative_prompt, negative_prompt),
        max_sequence_length=_or(config.max_sequence_length, _MAX_SEQUENCE_LENGTH),
    )


def _or(value: T | None, default: T) -> T:
    return default if value is None else value
