"""Where a generation starts: noise drawn from a seed, or read from a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from pipelines.errors import InvalidParams


def draw(seed: int, count: int, shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
    """Yield `count` tensors (1, *shape) of standard normal noise: float32, on the CPU.

    Drawn on the CPU so that a seed means the same on every device. The first of several equals the only one
    of a single draw.
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    for _ in range(count):
        yield torch.randn((1, *shape), generator=generator, dtype=torch.float32)


def load_fixed(path: Path, count: int, shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
    """The `count` tensors (1, *shape), float32, that a `.pt` or `.safetensors` file holds.

    The file holds one tensor (or one named `latents`) of `shape` or (count, *shape). It is read and checked
    before this returns: what does not fit is known before any work is done for it.

    Raises:
        InvalidParams: on the field `latents`, with both shapes, or why the file can't be read.
    """
    latents = _read(path)
    if latents.dim() == len(shape):
        latents = latents.unsqueeze(0)
    if tuple(latents.shape) != (count, *shape):
        raise InvalidParams(
            "latents",
            f"fixed latent {path.name}: shape {tuple(latents.shape)} does not fit this request, "
            f"which needs {(count, *shape)}",
        )
    if not latents.is_floating_point() or not bool(torch.isfinite(latents).all()):
        raise InvalidParams("latents", f"fixed latent {path.name}: holds values that are no finite floats")
    return (latents[index : index + 1].to(torch.float32) for index in range(count))


def _read(path: Path) -> torch.Tensor:
    try:
        found: Any = (
            load_file(path)
            if path.suffix == ".safetensors"
            else torch.load(path, map_location="cpu", weights_only=True)
        )
    except Exception as error:  # noqa: BLE001 - unpickling a foreign file can raise anything
        raise InvalidParams(
            "latents", f"fixed latent {path.name}: cannot be read ({type(error).__name__})"
        ) from None
    if isinstance(found, dict):
        found = found.get("latents", next(iter(found.values())) if len(found) == 1 else None)
    if not isinstance(found, torch.Tensor):
        raise InvalidParams("latents", f"fixed latent {path.name}: holds no tensor named latents")
    return found
