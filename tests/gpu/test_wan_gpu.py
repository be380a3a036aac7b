"""The Wan pipelines on a CUDA device: the same pictures as on the CPU, and room again after a failure."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

from pipelines.errors import OutOfMemory
from pipelines.wan import Wan, load_wan
from server.engine.device import Device
from server.engine.service import _capabilities
from tests.pipelines.tiny_models import frames_of, params_for, picture, tiny_config

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("exact_arithmetic")]


@pytest.mark.parametrize("task", ["t2v", "i2v", "ti2v"])
def test_a_seed_means_the_same_on_the_gpu(task: str, tmp_path: Path) -> None:
    """The frames are the CPU's but for rounding."""
    here, there = load_wan(tiny_config(task), "cpu"), load_wan(tiny_config(task), "cuda:0")
    image = None if task == "t2v" else picture(tmp_path / "first.png", 64, 32)
    expected, got = (
        frames_of(here, params_for(here, image=image)),
        frames_of(there, params_for(there, image=image)).cpu(),
    )
    assert (expected - got).abs().mean() < 1e-3


@pytest.mark.parametrize("task", ["t2v", "i2v", "ti2v"])
def test_offload_changes_the_memory_and_nothing_else(task: str, tmp_path: Path) -> None:
    """The same bits, and after the generation no weights on the device."""
    image = None if task == "t2v" else picture(tmp_path / "first.png", 64, 32)
    resident, moving = (
        load_wan(tiny_config(task, offload=offload), "cuda:0") for offload in ("none", "model")
    )
    expected, got = (
        frames_of(resident, params_for(resident, image=image)),
        frames_of(moving, params_for(moving, image=image)),
    )
    assert torch.equal(expected.cpu(), got.cpu())
    modules = (part for part in moving._pipe.components.values() if isinstance(part, torch.nn.Module))
    assert {next(module.parameters()).device.type for module in modules} == {"cpu"}


def test_bfloat16_makes_finite_pictures() -> None:
    """The data type that the real models are served in."""
    model = load_wan(tiny_config("t2v", dtype="bfloat16"), "cuda:0")
    frames = frames_of(model, params_for(model))
    assert frames.dtype == torch.bfloat16
    assert bool(torch.isfinite(frames).all())


def test_out_of_memory_leaves_no_trace() -> None:
    """A request that does not fit says so, and the next one makes the same bits as before."""
    model = load_wan(tiny_config("t2v"), "cuda:0")
    before = frames_of(model, params_for(model)).cpu()
    used = torch.cuda.memory_allocated()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 64 * 2**20) / total)
    try:
        with pytest.raises(OutOfMemory, match="1024x1024, 33 frames"):
            frames_of(model, params_for(model, width=1024, height=1024, num_frames=33))
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    gc.collect()
    assert torch.cuda.memory_allocated() <= used
    assert torch.equal(frames_of(model, params_for(model)).cpu(), before)


def test_a_worker_names_its_card() -> None:
    """`auto` is the first GPU."""
    model: Wan = load_wan(tiny_config("t2v"), "cuda:0")
    device = Device("auto")
    assert device.name == "cuda:0"
    assert torch.cuda.get_device_name(0) in _capabilities(device, {"t2v": model}).device
