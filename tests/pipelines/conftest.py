"""The tiny models, loaded once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from pipelines.base import GenerationParams
from pipelines.wan import Wan, load_wan
from tests.pipelines.tiny_models import frames_of, params_for, tiny_config


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
    return params_for


@pytest.fixture(scope="session")
def run() -> Callable[..., torch.Tensor]:
    """All frames of one output of a generation."""
    return frames_of
