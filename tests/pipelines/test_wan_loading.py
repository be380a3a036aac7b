"""Checkpoints of Wan as they are loaded, and those that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import WanPipeline

from pipelines.base import DecodeConfig
from pipelines.errors import LoadFailed
from pipelines.wan import Wan, load_wan
from pipelines.wan_vae import fp8
from tests.pipelines.tiny_models import TINY, frames_of, params_for, tiny_config


def test_a_saved_pipeline_is_loaded_by_its_path(t2v: Wan, tmp_path: Path) -> None:
    """Saved by diffusers, loaded from the folder: the same video."""
    pipe: Any = t2v._pipe
    assert isinstance(pipe, WanPipeline)
    pipe.save_pretrained(tmp_path / "saved")
    loaded = load_wan(tiny_config("t2v", path=str(tmp_path / "saved"), guidance_scale_2=3.0), "cpu")
    assert torch.equal(frames_of(loaded, params_for(loaded)), frames_of(t2v, params_for(t2v)))


@pytest.mark.parametrize("broken", ["missing", "empty", "no-weights"])
def test_what_cannot_be_loaded_is_named(t2v: Wan, tmp_path: Path, broken: str, monkeypatch: Any) -> None:
    """The error says which model and which folder."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / broken
    if broken != "missing":
        folder.mkdir()
    if broken == "no-weights":
        (folder / "model_index.json").write_text((TINY / "t2v" / "model_index.json").read_text())
    with pytest.raises(LoadFailed, match=rf"tiny-t2v.*{broken}"):
        load_wan(tiny_config("t2v", path=str(folder)), "cpu")


def test_fp8_without_its_hardware_is_refused() -> None:
    """When the model is loaded, not at the first request, and before its files are read."""
    config = tiny_config("t2v", path="nowhere", decode=DecodeConfig(precision="fp8"))
    with pytest.raises(LoadFailed, match=r"tiny-t2v: decode\.precision is fp8; it needs a Hopper GPU .*cpu"):
        load_wan(config, "cpu")


def test_fp8_that_would_change_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny VAE's channels are too few for our kernel, whatever the hardware."""
    monkeypatch.setattr(fp8, "missing", lambda *_: None)
    with pytest.raises(LoadFailed, match=r"tiny-t2v: decode\.precision is fp8; its VAE has no convolution"):
        load_wan(tiny_config("t2v", decode=DecodeConfig(precision="fp8")), "cpu")


def test_two_expert_settings_on_one_expert_are_refused() -> None:
    """A configuration that promises what the checkpoint lacks does not start."""
    with pytest.raises(LoadFailed, match="guidance_scale_2"):
        load_wan(tiny_config("ti2v", guidance_scale_2=3.0), "cpu")


def test_an_architecture_with_random_weights(t2v: Wan, tmp_path: Path) -> None:
    """`load_format: dummy` needs the configuration files alone, and makes finite frames of the right size."""
    for source in (TINY / "t2v").rglob("*"):
        if source.is_file() and source.suffix != ".safetensors":
            target = tmp_path / source.relative_to(TINY / "t2v")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    model = load_wan(tiny_config("t2v", path=str(tmp_path), load_format="dummy"), "cpu")
    frames = frames_of(model, params_for(model))
    assert frames.shape == (3, 5, 32, 64)
    assert bool(torch.isfinite(frames).all())
