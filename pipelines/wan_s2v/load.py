"""A speech-to-video checkpoint from a folder of ours, the official files, or a hub repository of either."""

from __future__ import annotations

from pathlib import Path

import torch
from huggingface_hub import snapshot_download

from pipelines.base import ModelConfig
from pipelines.wan_parts import load_parts
from pipelines.wan_s2v.components import PRECISE, WanS2VPipeline
from pipelines.wan_s2v.official import is_official, load_official
from pipelines.wan_s2v.speech import WanS2V

_NEEDED = ("*.json", "*.safetensors", "*.pth", "*.model", "*.txt")
"""Of a hub repository: what either layout is read from."""


def load_wan_s2v(config: ModelConfig, device: str) -> WanS2V:
    """Load a diffusers folder (as `convert.py` writes it) or the official files onto `device`.

    Raises:
        LoadFailed: missing or broken files, or a checkpoint of another family.
    """
    pipe = load_parts(config, torch.device(device), _read, WanS2VPipeline, PRECISE)
    return WanS2V(pipe, config, torch.device(device))


def read_checkpoint(folder: Path, dtype: torch.dtype) -> WanS2VPipeline:
    """All parts on the CPU; the sound's encoder in float32, as the official code runs it."""
    if is_official(folder):
        return load_official(folder, dtype)
    types = {"default": dtype, **dict.fromkeys(PRECISE, torch.float32)}
    pipe: WanS2VPipeline = WanS2VPipeline.from_pretrained(folder, dtype=types, use_safetensors=True)
    return pipe


def _read(path: str, dtype: torch.dtype) -> WanS2VPipeline:
    local = Path(path)
    folder = local if local.is_dir() else Path(snapshot_download(path, allow_patterns=list(_NEEDED)))
    return read_checkpoint(folder, dtype)
