"""Weights in the order in which our convolution (`pipelines.wan_vae.conv`) reads them."""

from __future__ import annotations

import torch

from pipelines.wan_vae.conv import Kernel

LARGEST_FP8 = 448.0
"""The largest value of e4m3."""


def packed(weight: torch.Tensor, kernel: Kernel, *, phases: bool = False) -> torch.Tensor:
    """Weights (out, in, KT, kh, kw), or (out, in, 3, 3) with `phases`, in the order of their use."""
    if phases:
        return torch.stack([_pack(part, kernel) for part in _phases(weight)], dim=1).contiguous()
    return _pack(weight.flatten(3), kernel).contiguous()


def packed_fp8(weight: torch.Tensor, kernel: Kernel) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (out, in, KT, kh, kw) rounded to e4m3, and what each output channel was divided by, (out,)."""
    weight = weight.float().flatten(3)
    factors = weight.flatten(1).abs().amax(1).clamp(min=1e-12) / LARGEST_FP8
    low = (weight / factors.view(-1, 1, 1, 1)).permute(0, 2, 3, 1).to(torch.float8_e4m3fn).contiguous()
    pairs = low.view(torch.int16).permute(0, 3, 1, 2)
    return _pack(pairs, kernel).contiguous(), factors


def _pack(weight: torch.Tensor, kernel: Kernel) -> torch.Tensor:
    """(out, in, KT, taps) to (tiles, KT, chunks, taps, CH / 8, BN, 8)."""
    out, into, frames, taps = weight.shape
    if missing := -out % kernel.columns:
        weight = torch.cat([weight, weight.new_zeros(missing, *weight.shape[1:])])
    split = weight.reshape(
        (out + missing) // kernel.columns,
        kernel.columns,
        into // kernel.channels,
        kernel.channels // 8,
        8,
        frames,
        taps,
    )
    return split.permute(0, 5, 2, 6, 3, 1, 4)


def _phases(weight: torch.Tensor) -> list[torch.Tensor]:
    """A 3 × 3 kernel over doubled pixels as four 2 × 2 kernels over the pixels: (out, in, 1, 4) each."""
    exact = weight.float()
    rows = [
        torch.stack([exact[:, :, 0], exact[:, :, 1] + exact[:, :, 2]], dim=2),
        torch.stack([exact[:, :, 0] + exact[:, :, 1], exact[:, :, 2]], dim=2),
    ]
    return [
        torch.stack(columns, dim=3).flatten(2).unsqueeze(2).to(weight.dtype)
        for row in rows
        for columns in (
            [row[..., 0], row[..., 1] + row[..., 2]],
            [row[..., 0] + row[..., 1], row[..., 2]],
        )
    ]
