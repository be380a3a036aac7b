"""A checkpoint's architecture with random weights, for measuring speed and memory without the weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import diffusers
import torch
from accelerate import init_empty_weights
from transformers import AutoConfig, AutoTokenizer


def dummy_pipeline(
    folder: str,
    dtype: torch.dtype,
    device: torch.device,
    pipeline: Callable[..., Any] | None = None,
    precise: Collection[str] = (),
) -> Any:
    """Build the diffusers pipeline of `folder` (configuration files, tokenizer; no weights) on `device`.

    Weights are initialised as the classes do it, under a fixed seed. `pipeline`: the class, where
    diffusers has none of the name that the folder says. `precise`: the components that stay in float32.

    Raises:
        OSError, ValueError: a file of `folder` is missing or names an unknown class.
    """
    root = Path(folder)
    index = json.loads((root / "model_index.json").read_text())
    parts: dict[str, Any] = {}
    for name, value in index.items():
        if name.startswith("_"):
            continue
        is_component, own = isinstance(value, list), torch.float32 if name in precise else dtype
        parts[name] = _component(root / name, value, own, device) if is_component else value
    made = getattr(diffusers, index["_class_name"]) if pipeline is None else pipeline
    return made(**parts)


def _component(folder: Path, source: list[str | None], dtype: torch.dtype, device: torch.device) -> Any:
    library, name = source
    if library is None or name is None:  # an optional component that this model lacks
        return None
    if "Tokenizer" in name:
        return AutoTokenizer.from_pretrained(folder)
    cls = getattr(import_module(library), name)
    if "Scheduler" in name or "Extractor" in name:
        return cls.from_pretrained(folder)
    if library == "transformers":
        config = AutoConfig.from_pretrained(folder)
        return _build(lambda: cls(config), dtype, device)
    return _build(lambda: cls.from_config(cls.load_config(folder)), dtype, device)


def build_empty(folder: Path, cls: Any, dtype: torch.dtype, device: torch.device) -> torch.nn.Module:
    """Build one component of `folder` on `device`, never in more memory than it takes in `dtype`.

    Weights are drawn as torch's layers do it, after their room is there; those of other modules are about 1
    (gains), 0 (biases) or small.

    Raises:
        OSError, ValueError: its configuration is missing or of another class.
    """
    with init_empty_weights(include_buffers=False):
        if hasattr(cls, "load_config"):
            module = cls.from_config(cls.load_config(folder))
        else:
            module = cls(AutoConfig.from_pretrained(folder))
    kept = set(getattr(module, "_keep_in_fp32_modules", None) or ())
    torch.manual_seed(0)
    for name, owner in module.named_modules():
        for key, parameter in owner.named_parameters(recurse=False):
            precise = kept & {*name.split("."), key}
            there = torch.empty_like(parameter, dtype=torch.float32 if precise else dtype, device=device)
            setattr(owner, key, torch.nn.Parameter(_drawn(key, there), requires_grad=False))
        if hasattr(owner, "reset_parameters"):
            owner.reset_parameters()
    return cast(torch.nn.Module, module.to(device).eval().requires_grad_(False))


def brought_home(module: torch.nn.Module) -> torch.nn.Module:
    """Move the module to the host, into memory that all processors have claimed before.

    A copy from a device into memory that is not there yet goes at a gigabyte a second.
    """
    for weight in module.parameters():
        weight.data = torch.empty_like(weight, device="cpu").zero_().copy_(weight)
    return module.to("cpu")


def _drawn(name: str, weights: torch.Tensor) -> torch.Tensor:
    if weights.dim() > 1 and name != "weight_g":  # that is a gain, whatever its shape
        return weights.normal_(0, 0.02)
    return weights.fill_(0 if name.endswith("bias") else 1)


def _build(make: Callable[[], torch.nn.Module], dtype: torch.dtype, device: torch.device) -> torch.nn.Module:
    torch.manual_seed(0)
    with torch.device(device):
        module = make()
    kept = getattr(module, "_keep_in_fp32_modules", None) or ()
    for name, parameter in module.named_parameters():
        if not any(part in name.split(".") for part in kept):
            parameter.data = parameter.data.to(dtype)
    # Not every weight heeds the device above: torch.Tensor(n), of which wav2vec2 makes one, is on the CPU.
    return module.to(device).eval().requires_grad_(False)
