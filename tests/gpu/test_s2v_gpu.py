"""Speech to video on a CUDA device: the same pictures as on the CPU, also offloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pipelines.base import Chunk, Pipeline
from pipelines.wan_s2v.load import load_wan_s2v
from tests.pipelines.tiny_models import Recorder, params_for, picture, tiny_config
from tests.pipelines.wan_s2v.s2v_models import wav

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("exact_arithmetic")]


def load(device: str, **changes: Any) -> Pipeline:
    return load_wan_s2v(tiny_config("s2v", kind="wan-s2v", height=64, num_frames=13, **changes), device)


def video(model: Pipeline, folder: Path) -> torch.Tensor:
    """Two clips."""
    times = torch.arange(48_000) / 48_000
    given = {
        "image": picture(folder / "picture.png", 64, 64),
        "audio": wav(folder / "sound.wav", torch.sin(440 * 2 * torch.pi * times)[None]),
    }
    parts = list(model.generate(params_for(model, **given), Recorder()))
    return torch.cat([part.frames for part in parts if isinstance(part, Chunk)], dim=1).cpu()


def test_a_seed_means_the_same_on_the_gpu(tmp_path: Path) -> None:
    """The frames are the CPU's but for rounding."""
    expected, got = (video(load(device), tmp_path) for device in ("cpu", "cuda:0"))
    assert (expected - got).abs().mean() < 1e-3


def test_offload_changes_nothing_but_the_memory(tmp_path: Path) -> None:
    """The same bits, and after the generation no weights on the device."""
    moving: Any = load("cuda:0", offload="model")
    assert torch.equal(video(load("cuda:0"), tmp_path), video(moving, tmp_path))
    modules = [part for part in moving._pipe.components.values() if isinstance(part, torch.nn.Module)]
    assert {next(module.parameters()).device.type for module in modules} == {"cpu"}


@pytest.mark.parametrize("load_format", ["auto", "dummy"])
def test_bfloat16_makes_finite_pictures(load_format: str, tmp_path: Path) -> None:
    """The data type that the real model is served in; random weights too, all of them on the device."""
    model = load("cuda:0", dtype="bfloat16", load_format=load_format)
    assert bool(torch.isfinite(video(model, tmp_path)).all())
