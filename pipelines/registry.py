"""Kind of model → its loader, imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import cast

from pipelines.base import ModelConfig, Pipeline
from pipelines.errors import LoadFailed
from pipelines.folders import check_folder

Loader = Callable[[ModelConfig, str], Pipeline]

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "wan": "pipelines.wan:load_wan",
        "wan-s2v": "pipelines.wan_s2v.load:load_wan_s2v",
        "minimax-h3": "pipelines.minimax_h3.model:load_minimax_h3",
    }
)
"""`module:function` of each kind's loader."""
CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "wan": ("WanPipeline", "WanImageToVideoPipeline"),
        "wan-s2v": ("WanS2VPipeline",),
        "minimax-h3": ("MiniMaxH3ModularPipeline",),
    }
)
"""diffusers' classes that each kind loads, as a folder's index names them."""


def load(config: ModelConfig, device: str) -> Pipeline:
    """Load a model onto `device` (torch's name: `cpu`, `cuda:0`).

    Raises:
        LoadFailed: an unknown kind, one that does not fit the folder, or a checkpoint that cannot be loaded.
    """
    if config.kind not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise LoadFailed(f"model {config.id}: kind {config.kind!r} is unknown; known kinds: {known}")
    check_folder(config, CLASSES)
    module, function = KINDS[config.kind].split(":")
    loader = cast(Loader, getattr(import_module(module), function))
    return loader(config, device)
