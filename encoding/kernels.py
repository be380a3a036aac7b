"""`encoding.frames` on a CUDA device, in one pass. Imported on machines with such a device only.

Every product and sum is rounded by itself (no fused multiply-add), as torch does: the bytes are the host's.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

_COLUMNS = 256
"""Pixels of a row that one program takes; twice as many rows of them."""


@triton.jit
def _plus(a, b):  # type: ignore[no-untyped-def]  # triton's types are its own
    return tl.inline_asm_elementwise("add.rn.f32 $0, $1, $2;", "=r,r,r", [a, b], tl.float32, True, 1)


@triton.jit
def _times(a, b):  # type: ignore[no-untyped-def]
    return tl.inline_asm_elementwise("mul.rn.f32 $0, $1, $2;", "=r,r,r", [a, b], tl.float32, True, 1)


@triton.jit
def _level(value):  # type: ignore[no-untyped-def]
    """Rounded half to even, as uint8."""
    rounded = tl.inline_asm_elementwise("cvt.rni.f32.f32 $0, $1;", "=r,r", [value], tl.float32, True, 1)
    return rounded.to(tl.uint8)


@triton.jit
def _read(source, here, finite):  # type: ignore[no-untyped-def]
    """Clipped pixels, and whether all so far were finite. `other` lies within both."""
    raw = tl.load(source, mask=here, other=0.0).to(tl.float32)
    finite = finite & (tl.abs(raw) < float("inf"))
    return tl.minimum(tl.maximum(raw, -1.0), 1.0), finite


@triton.jit
def _luma(red, green, blue):  # type: ignore[no-untyped-def]
    return _plus(_plus(_times(red, 0.2126), _times(green, 0.7152)), _times(blue, 0.0722))


@triton.jit  # type: ignore[untyped-decorator]
def _yuv420(  # type: ignore[no-untyped-def]
    frames,
    out,
    flag,
    height,
    width,
    channel_stride,
    frame_stride,
    row_stride,
    column_stride,
    columns: tl.constexpr,
):
    """A stretch of two rows of one frame: two rows of luma and one of each chroma."""
    pair = tl.program_id(1)
    frame = tl.program_id(2).to(tl.int64)
    column = (tl.program_id(0) * columns + tl.arange(0, columns)) * 2
    source = frames + frame * frame_stride + pair * 2 * row_stride
    target = out + frame * (height * width * 3 // 2)
    finite = tl.full((columns,), 1, tl.int1)
    here = column < width
    # Chroma lies upon the even columns and needs the one to their left; the edge stands for what is beyond.
    left_red = tl.zeros((columns,), tl.float32)
    blue_sum = left_red
    red_sum = left_red
    for side in tl.static_range(3):  # left, centre, right
        at = tl.maximum(column + side - 1, 0)
        blue_rows = tl.zeros((columns,), tl.float32)
        red_rows = tl.zeros((columns,), tl.float32)
        for row in tl.static_range(2):
            place = source + row * row_stride + at * column_stride
            red, finite = _read(place, here, finite)
            green, finite = _read(place + channel_stride, here, finite)
            # One after the other: twice the distance need not fit into 32 bits.
            blue, finite = _read(place + channel_stride + channel_stride, here, finite)
            luma = _luma(red, green, blue)
            if side > 0:
                y = _level(_plus(_times(luma, 109.5), 125.5))
                tl.store(target + (pair * 2 + row) * width + at, y, mask=here)
            blue_rows = _plus(blue_rows, _plus(blue, -luma)) if row == 1 else _plus(blue, -luma)
            red_rows = _plus(red_rows, _plus(red, -luma)) if row == 1 else _plus(red, -luma)
        blue_rows = _times(blue_rows, 0.5)
        red_rows = _times(red_rows, 0.5)
        if side == 0:
            blue_sum, red_sum = blue_rows, red_rows
        elif side == 1:
            blue_sum = _plus(blue_sum, _times(blue_rows, 2.0))
            red_sum = _plus(red_sum, _times(red_rows, 2.0))
        else:
            blue_sum = _plus(blue_sum, blue_rows)
            red_sum = _plus(red_sum, red_rows)
    chroma = target + height * width + pair * (width // 2) + column // 2
    u = _plus(_times(_times(blue_sum, 0.25), 60.357835740461303), 128.0)
    v = _plus(_times(_times(red_sum, 0.25), 71.120142240284484), 128.0)
    tl.store(chroma, _level(u), mask=here)
    tl.store(chroma + height * width // 4, _level(v), mask=here)
    if tl.min(finite.to(tl.int32), axis=0) == 0:
        tl.store(flag, 0)


def yuv420(frames: torch.Tensor) -> torch.Tensor:
    """What `frames.pack` makes of (3, T, H, W) with `YUV420P`. Even sides; any layout and floating type."""
    _, count, height, width = frames.shape
    packed = torch.empty(count * height * width * 3 // 2 + 1, dtype=torch.uint8, device=frames.device)
    packed[-1].fill_(1)
    grid = (triton.cdiv(width // 2, _COLUMNS), height // 2, count)
    _yuv420[grid](frames, packed, packed[-1:], height, width, *frames.stride(), _COLUMNS, num_warps=4)
    return packed
