"""Float frames to the bytes that an output holds, on whatever device they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

if torch.cuda.is_available():
    from encoding import kernels
else:
    kernels = None  # type: ignore[assignment]  # triton comes with torch's builds for CUDA only

_RED, _GREEN, _BLUE = 0.2126, 0.7152, 0.0722
"""Weights of the primaries in BT.709 luma."""

_GROUP_BYTES = 16 * 2**20
"""Float32 pixels converted at once: bounds the temporaries of a long chunk."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How the pixels of one frame lie in bytes.

    `fill` takes float32 RGB (3, T, H, W) in [-1, 1], which it may overwrite, and writes uint8
    (T, frame_bytes).
    """

    name: str
    pair_bytes: int
    """Bytes of two pixels."""
    fill: Callable[[torch.Tensor, torch.Tensor], None]

    def frame_bytes(self, width: int, height: int) -> int:
        return width * height * self.pair_bytes // 2

    def packed_bytes(self, frames: int, width: int, height: int) -> int:
        """What `pack` makes of that many frames: their bytes, and one that says whether all are finite."""
        return frames * self.frame_bytes(width, height) + 1


def pack(frames: torch.Tensor, packing: Packing) -> torch.Tensor:
    """Convert frames (3, T, H, W), RGB float in [-1, 1], values beyond clipped, on their own device.

    Returns uint8 (T · frame_bytes + 1): frame after frame, then 1 if every input value was finite, else 0;
    so the finding travels with the pixels and costs no synchronization. Each frame depends on nothing but
    itself: any split of a video gives the same bytes.
    """
    if frames.is_cuda and packing is YUV420P:
        return kernels.yuv420(frames)
    _, count, height, width = frames.shape
    size = packing.packed_bytes(count, width, height)
    packed = torch.empty(size, dtype=torch.uint8, device=frames.device)
    rows = packed[:-1].view(count, -1)
    finite = packed.new_ones((), dtype=torch.bool)
    for start, group in _groups(frames):
        finite &= group.abs().amax() < math.inf  # NaN is not less either; `isfinite` takes ten times as long
        clipped = group.to(torch.float32).clamp(-1, 1)
        packing.fill(clipped, rows[start : start + group.shape[1]])
    packed[-1].copy_(finite)
    return packed


def _groups(frames: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    _, count, height, width = frames.shape
    step = max(1, _GROUP_BYTES // (height * width * 12))
    for start in range(0, count, step):
        yield start, frames[:, start : start + step]


def _fill_rgb(rgb: torch.Tensor, out: torch.Tensor) -> None:
    _, count, height, width = rgb.shape
    levels = rgb.add_(1).mul_(127.5).round_()
    out.view(count, height, width, 3).copy_(levels.permute(1, 2, 3, 0))


def _fill_yuv420(rgb: torch.Tensor, out: torch.Tensor) -> None:
    # Products and sums only: a matmul or a fused multiply-add would round differently from device to device.
    luma = rgb[0] * _RED + rgb[1] * _GREEN + rgb[2] * _BLUE
    chroma = out.shape[1] // 6
    _store(luma * 109.5 + 125.5, out[:, : 4 * chroma])
    _store(_subsample(rgb[2] - luma) * (56 / (1 - _BLUE)) + 128, out[:, 4 * chroma : 5 * chroma])
    _store(_subsample(rgb[0] - luma) * (56 / (1 - _RED)) + 128, out[:, 5 * chroma :])


def _store(plane: torch.Tensor, out: torch.Tensor) -> None:
    out.view(plane.shape).copy_(plane.round_())


def _subsample(plane: torch.Tensor) -> torch.Tensor:
    """Halve (T, H, W) both ways, sited as MPEG-2 does: between two rows, upon the even columns."""
    rows = (plane[:, 0::2] + plane[:, 1::2]) * 0.5
    centre, right = rows[..., 0::2], rows[..., 1::2]
    left = torch.cat((rows[..., :1], right[..., :-1]), dim=-1)
    return (left + centre * 2 + right) * 0.25


RGB24 = Packing("rgb24", 6, _fill_rgb)
"""uint8 RGB (T, H, W, 3): round((x + 1) · 127.5)."""

YUV420P = Packing("yuv420p", 3, _fill_yuv420)
"""BT.709, limited range; per frame Y (H, W), then U and V (H/2, W/2), left-sited. Even sides."""


def yuv420_planes(
    frame: torch.Tensor, width: int, height: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The planes of one packed frame (frame_bytes,) as views: (H, W), (H/2, W/2), (H/2, W/2)."""
    chroma, half = width * height // 4, (height // 2, width // 2)
    y, u, v = frame[: 4 * chroma], frame[4 * chroma : 5 * chroma], frame[5 * chroma :]
    return y.view(height, width), u.view(half), v.view(half)
