"""Kind of model → its loader, imported when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import cast

from pipelines.base import ModelConfig, Pipeline
from pipelines.errors import LoadFailed
from pipelines.folders import check_folder

Loader = Callable[[ModelConfig, str], Pipeline]


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of `KINDS`."""

    loader: str
    """`module:function`."""
    classes: tuple[str, ...]
    """diffusers' classes that it loads, as a folder's index names them."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "wan": Kind("pipelines.wan:load_wan", ("WanPipeline", "WanImageToVideoPipeline")),
        "wan-s2v": Kind("pipelines.wan_s2v.load:load_wan_s2v", ("WanS2VPipeline",)),
        "minimax-h3": Kind("pipelines.minimax_h3.model:load_minimax_h3", ("MiniMaxH3ModularPipeline",)),
    }
)


def load(config: ModelConfig, device: str) -> Pipeline:
    """Load a model onto `device` (torch's name: `cpu`, `cuda:0`).

    Raises:
        LoadFailed: an unknown kind, one that does not fit the folder, or a checkpoint that cannot be loaded.
    """
    if config.kind not in KINDS:
        known = ", ".join(sorted(KINDS))
        raise LoadFailed(f"model {config.id}: kind {config.kind!r} is unknown; known kinds: {known}")
    check_folder(config, {name: kind.classes for name, kind in KINDS.items()})
    module, function = KINDS[config.kind].loader.split(":")
    loader = cast(Loader, getattr(import_module(module), function))
    return loader(config, device)
