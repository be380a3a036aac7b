"""What the streaming decoder does between its convolutions, each in one pass over memory.

Pictures lie channels last throughout: contiguous (frames, height, width, channels). On a CUDA device these
are kernels of `pipelines.wan_vae.kernels`; elsewhere plain torch, which the kernels are tested against.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers.models.autoencoders.autoencoder_kl_wan import WanRMS_norm

if torch.cuda.is_available():
    from pipelines.wan_vae import kernels
else:
    kernels = None  # type: ignore[assignment]  # triton comes with torch's builds for CUDA only


@dataclass(slots=True)
class Sum:
    """The value `y + bias + residual`, not added up yet: whoever reads `y` anyway adds the rest on the way.

    `y`: (T, H, W, C), which `settle` and `activate` overwrite with the value. `bias`: (C,). `residual`: as
    `y`.
    """

    y: torch.Tensor
    bias: torch.Tensor | None = None
    residual: torch.Tensor | None = None

    @property
    def settled(self) -> bool:
        return self.bias is None and self.residual is None


def settle(value: Sum, out: torch.Tensor | None = None) -> torch.Tensor:
    """Add `value` up in place, and write it to `out` (T, H, W, C) as well. Returns it."""
    if not value.settled or out is not None:
        _pointwise(value, None, out, keep=not value.settled)
        value.bias = value.residual = None
    return value.y


def activate(
    value: Sum, norm: WanRMS_norm, out: torch.Tensor, *, keep: bool = False, scale: float | None = None
) -> None:
    """Write SiLU(norm(`value`)) to `out` (T, H, W, C); with `keep`, add `value` up in place too.

    `scale`: what is written is multiplied by it, for an `out` with a small range.
    """
    _pointwise(value, norm, out, keep=keep and not value.settled, scale=scale or 1.0)
    if keep:
        value.bias = value.residual = None


def normalize(x: torch.Tensor, norm: WanRMS_norm) -> torch.Tensor:
    """The norm alone: in float32, rounded once."""
    return _normalized(x.float(), norm).to(x.dtype)


def doubled(x: torch.Tensor, *, pairs: bool) -> torch.Tensor:
    """Each pixel four times (nearest), (T, H, W, C) to (T, 2H, 2W, C).

    `pairs`: the channels of `x` are those of two frames, (T, H, W, 2C) to (2T, 2H, 2W, C).
    """
    if x.is_cuda:
        return kernels.doubled(x, pairs=pairs)
    frames, height, width, channels = x.shape
    copies = 2 if pairs else 1
    x = x.view(frames, height, width, copies, channels // copies).permute(0, 3, 1, 2, 4).flatten(0, 1)
    x = x[:, :, None, :, None].expand(-1, -1, 2, -1, 2, -1)
    return x.reshape(frames * copies, 2 * height, 2 * width, channels // copies)


def _normalized(x: torch.Tensor, norm: WanRMS_norm) -> torch.Tensor:
    scaled: torch.Tensor = F.normalize(x, dim=-1) * (norm.scale * norm.gamma.flatten().float())
    return scaled


def _pointwise(
    value: Sum, norm: WanRMS_norm | None, out: torch.Tensor | None, *, keep: bool, scale: float = 1.0
) -> None:
    if value.y.is_cuda:
        gamma = None if norm is None else norm.gamma
        kernels.pointwise(value.y, value.bias, value.residual, gamma, out, keep=keep, scale=scale)
        return
    total = value.y.float()  # which copies nothing that is float32 already
    if value.bias is not None:
        total = total + value.bias
    if value.residual is not None:
        total = total + value.residual
    if keep:
        value.y.copy_(total)
    if out is not None:
        out.copy_(total if norm is None else F.silu(_normalized(total, norm)) * scale)
