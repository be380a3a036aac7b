"""A checkpoint's architecture with random weights, for measuring speed and memory without the weights."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import diffusers
import torch
from transformers import AutoConfig, AutoTokenizer


def dummy_pipeline(folder: str, dtype: torch.dtype, device: torch.device) -> Any:
    """Build the diffusers pipeline of `folder` (configuration files, tokenizer; no weights) on `device`.

    Weights are initialised as the classes do it, under a fixed seed.

    Raises:
        OSError, ValueError: a file of `folder` is missing or names an unknown class.
    """
    root = Path(folder)
    index = json.loads((root / "model_index.json").read_text())
    parts: dict[str, Any] = {}
    for name, value in index.items():
        if name.startswith("_"):
            continue
        is_component = isinstance(value, list)
        parts[name] = _component(root / name, value, dtype, device) if is_component else value
    return getattr(diffusers, index["_class_name"])(**parts)


def _component(folder: Path, source: list[str | None], dtype: torch.dtype, device: torch.device) -> Any:
    library, name = source
    if library is None or name is None:  # an optional component that this model lacks
        return None
    if "Tokenizer" in name:
        return AutoTokenizer.from_pretrained(folder)
    cls = getattr(import_module(library), name)
    if "Scheduler" in name:
        return cls.from_pretrained(folder)
    if library == "transformers":
        config = AutoConfig.from_pretrained(folder)
        return _build(lambda: cls(config), dtype, device)
    return _build(lambda: cls.from_config(cls.load_config(folder)), dtype, device)


def _build(make: Callable[[], torch.nn.Module], dtype: torch.dtype, device: torch.device) -> torch.nn.Module:
    torch.manual_seed(0)
    with torch.device(device):
        module = make()
    kept = getattr(module, "_keep_in_fp32_modules", None) or ()
    for name, parameter in module.named_parameters():
        if not any(part in name.split(".") for part in kept):
            parameter.data = parameter.data.to(dtype)
    return module.eval().requires_grad_(False)
