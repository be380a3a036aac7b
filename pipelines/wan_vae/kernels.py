"""The passes of `pipelines.wan_vae.ops` as Triton kernels. Imported on machines with a CUDA device only.

All are bound by memory: sums, norms and SiLU are computed in float32 and rounded once, when stored.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_ELEMENTS = 4096
"""Of one program: enough loads in flight for each of its warps."""


@triton.jit  # type: ignore[untyped-decorator]
def _pointwise(  # type: ignore[no-untyped-def]  # triton's types are its own
    y,
    bias,
    residual,
    gamma,
    out,
    pixels,
    channels: tl.constexpr,
    padded: tl.constexpr,
    rows: tl.constexpr,
    has_bias: tl.constexpr,
    has_residual: tl.constexpr,
    has_norm: tl.constexpr,
    has_out: tl.constexpr,
    keep: tl.constexpr,
    by: tl.constexpr,
):
    """One group of `rows` pixels: sum, and then store it, or the SiLU of its norm, or both."""
    first = tl.program_id(0).to(tl.int64) * rows
    row = tl.arange(0, rows)
    channel = tl.arange(0, padded)
    offset = first * channels + row[:, None] * channels + channel[None, :]
    here = (first + row < pixels)[:, None] & (channel < channels)[None, :]
    total = tl.load(y + offset, mask=here, other=0.0).to(tl.float32)
    if has_bias:
        total += tl.load(bias + channel, mask=channel < channels, other=0.0).to(tl.float32)[None, :]
    if has_residual:
        total += tl.load(residual + offset, mask=here, other=0.0).to(tl.float32)
    if keep:
        tl.store(y + offset, total.to(y.dtype.element_ty), mask=here)
    if has_out:
        if has_norm:
            length = tl.sqrt(tl.sum(total * total, axis=1))
            weight = tl.load(gamma + channel, mask=channel < channels, other=0.0).to(tl.float32)
            scale = tl.sqrt(channels * 1.0) / tl.maximum(length, 1e-12)
            total = total * scale[:, None] * weight[None, :]
            total = total * tl.sigmoid(total) * by
        tl.store(out + offset, total.to(out.dtype.element_ty), mask=here)


def pointwise(
    y: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    gamma: torch.Tensor | None,
    out: torch.Tensor | None,
    *,
    keep: bool,
    scale: float = 1.0,
) -> None:
    """`y + bias + residual`, kept in `y` if `keep`; into `out` the same, or with `gamma` SiLU of its norm.

    That is multiplied by `scale`, for an `out` in e4m3.

    `y`, `residual` and `out` are contiguous (T, H, W, C), `bias` and `gamma` have C values.
    """
    channels = y.shape[-1]
    pixels = y.numel() // channels
    padded = triton.next_power_of_2(channels)
    rows = max(1, _ELEMENTS // padded)
    with torch.cuda.device(y.device):  # triton launches on the current one
        _pointwise[(triton.cdiv(pixels, rows),)](
            y,
            bias if bias is not None else y,
            residual if residual is not None else y,
            gamma if gamma is not None else y,
            out if out is not None else y,
            pixels,
            channels,
            padded,
            rows,
            bias is not None,
            residual is not None,
            gamma is not None,
            out is not None,
            keep,
            scale,
            num_warps=4,
        )


@triton.jit  # type: ignore[untyped-decorator]
def _doubled(  # type: ignore[no-untyped-def]
    x,
    out,
    height,
    width,
    channels: tl.constexpr,
    padded: tl.constexpr,
    copies: tl.constexpr,
    columns: tl.constexpr,
):
    """A stretch of `columns` pixels of one row: read for one output frame, written to four places."""
    row = tl.program_id(1)
    frame = tl.program_id(2)
    copy = frame % copies
    column = tl.program_id(0) * columns + tl.arange(0, columns)
    channel = tl.arange(0, padded)
    here = (column < width)[:, None] & (channel < channels)[None, :]
    source = x + (frame // copies * height + row).to(tl.int64) * width * (channels * copies) + copy * channels
    value = tl.load(source + column[:, None] * (channels * copies) + channel[None, :], mask=here, other=0.0)
    line = 2 * width * channels
    target = out + (frame * height + row).to(tl.int64) * 2 * line
    place = target + (2 * column)[:, None] * channels + channel[None, :]
    tl.store(place, value, mask=here)
    tl.store(place + channels, value, mask=here)
    tl.store(place + line, value, mask=here)
    tl.store(place + line + channels, value, mask=here)


def doubled(x: torch.Tensor, *, pairs: bool) -> torch.Tensor:
    """See `pipelines.wan_vae.ops.doubled`."""
    frames, height, width, channels = x.shape
    copies = 2 if pairs else 1
    channels //= copies
    out = x.new_empty(frames * copies, 2 * height, 2 * width, channels)
    padded = triton.next_power_of_2(channels)
    columns = max(1, _ELEMENTS // padded)
    with torch.cuda.device(x.device):  # triton launches on the current one
        _doubled[(triton.cdiv(width, columns), height, frames * copies)](
            x,
            out,
            height,
            width,
            channels,
            padded,
            copies,
            columns,
            num_warps=4,
        )
    return out
