"""The tiny models, loaded once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from pipelines.base import GenerationParams
from pipelines.wan import Wan, load_wan
from tests.pipelines.tiny_models import Recorder, tiny_config


@pytest.fixture(scope="session")
def t2v() -> Wan:
    return load_wan(tiny_config("t2v", guidance_scale_2=3.0), "cpu")


@pytest.fixture(scope="session")
def i2v() -> Wan:
    return load_wan(tiny_config("i2v"), "cpu")


@pytest.fixture(scope="session")
def ti2v() -> Wan:
    return load_wan(tiny_config("ti2v"), "cpu")


@pytest.fixture
def params() -> Callable[..., GenerationParams]:
    """Parameters for a model, from its defaults and the given changes."""

    def make(model: Wan, **changes: object) -> GenerationParams:
        defaults = model.info.defaults
        base = GenerationParams(
            model=model.info.id,
            prompt="a red circle",
            negative_prompt="blurry",
            width=defaults.width,
            height=defaults.height,
            num_frames=defaults.num_frames,
            seed=7,
            num_inference_steps=defaults.num_inference_steps,
            guidance_scale=defaults.guidance_scale,
            guidance_scale_2=defaults.guidance_scale_2,
            boundary_ratio=defaults.boundary_ratio,
            flow_shift=defaults.flow_shift,
            max_sequence_length=defaults.max_sequence_length,
        )
        return replace(base, **changes)  # type: ignore[arg-type]

    return make


@pytest.fixture(scope="session")
def run() -> Callable[..., torch.Tensor]:
    """All frames (3, T, H, W) of one output of a generation."""

    def generate(model: Wan, wanted: GenerationParams, output: int = 0) -> torch.Tensor:
        chunks = list(model.generate(wanted, Recorder()))
        return torch.cat([chunk.frames for chunk in chunks if chunk.output == output], dim=1)

    return generate
