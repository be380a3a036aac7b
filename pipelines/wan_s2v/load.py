"""A speech-to-video checkpoint from a folder of ours, the official files, or a hub repository of either."""

from __future__ import annotations

from pathlib import Path

import torch
from huggingface_hub import snapshot_download

from pipelines.base import ModelConfig
from pipelines.dummy import dummy_pipeline
from pipelines.errors import LoadFailed
from pipelines.wan_s2v.components import WanS2VPipeline
from pipelines.wan_s2v.official import is_official, load_official
from pipelines.wan_s2v.speech import WanS2V
from pipelines.wan_vae import keep_kernels_in

_NEEDED = ("*.json", "*.safetensors", "*.pth", "*.model", "*.txt")
"""Of a hub repository: what either layout is read from."""


def load_wan_s2v(config: ModelConfig, device: str) -> WanS2V:
    """Load a diffusers folder (as `convert.py` writes it) or the official files onto `device`.

    Raises:
        LoadFailed: missing or broken files, or a checkpoint of another family.
    """
    if config.tasks:
        raise LoadFailed(f"model {config.id}: tasks is not allowed; a checkpoint of Wan can do one thing")
    if config.decode.kernels is not None:
        keep_kernels_in(config.decode.kernels)
    try:
        pipe = _pipe(config, torch.device(device))
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RuntimeError, ImportError) as error:
        raise LoadFailed(f"model {config.id}: cannot load {config.path}: {error}") from error
    return WanS2V(pipe, config, torch.device(device))


def read_checkpoint(folder: Path, dtype: torch.dtype) -> WanS2VPipeline:
    """All parts on the CPU; the sound's encoder in float32, as the official code runs it."""
    if is_official(folder):
        return load_official(folder, dtype)
    types = {"default": dtype, "audio_encoder": torch.float32}
    pipe: WanS2VPipeline = WanS2VPipeline.from_pretrained(folder, dtype=types, use_safetensors=True)
    return pipe


def _pipe(config: ModelConfig, device: torch.device) -> WanS2VPipeline:
    dtype = getattr(torch, config.dtype)
    if config.load_format == "dummy":
        pipe: WanS2VPipeline = dummy_pipeline(config.path, dtype, device, WanS2VPipeline)
        return pipe
    local = Path(config.path)
    folder = local if local.is_dir() else Path(snapshot_download(config.path, allow_patterns=list(_NEEDED)))
    pipe = read_checkpoint(folder, dtype)
    if config.offload == "model":
        pipe.enable_model_cpu_offload(device=device)
    else:
        pipe.to(device)
    return pipe
