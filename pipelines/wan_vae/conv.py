"""Our convolution for Hopper: `conv.cu`, compiled for each kind of kernel; its weights: `packing`."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pipelines.wan_vae import cuda

_SOURCE = Path(__file__).with_name("conv.cu")
_SHARED_BYTES = 232_448
"""Of a multiprocessor, for one block of threads."""
_TILE_COLUMNS = 16


@dataclass(frozen=True, slots=True)
class Kernel:
    """One way to compile `conv.cu`; its words are explained there."""

    columns: int
    """BN: output channels at once."""
    channels: int
    """CH: input channels at once."""
    frames: int
    """KT: input frames of an output frame."""
    taps: int
    groups: int
    fp8: bool = False
    """Inputs and weights in e4m3; `channels` counts pairs of them then."""

    @property
    def rows(self) -> int:
        return 8 * self.groups

    @property
    def _tile_bytes(self) -> int:
        return -(-self.channels // 8 * (self.rows + 2) * 18 * 16 // 128) * 128

    @property
    def _staging_bytes(self) -> int:
        return self.groups * 4 * 16 * (self.columns + 8) * 2

    @property
    def stages(self) -> int:
        left = _SHARED_BYTES - 512 - 2 * self._tile_bytes - self._staging_bytes
        return min(12, left // (self.columns * self.channels * 2))

    @property
    def shared_bytes(self) -> int:
        weights = self.stages * self.columns * self.channels * 2
        return 2 * self._tile_bytes + weights + self._staging_bytes + 32 + 16 * self.stages

    def source(self) -> str:
        sums = self.columns // 2
        registers = ", ".join(f"%{i}" for i in range(sums))
        kind, layout = ("k32.f32.e4m3.e4m3", "1, 1") if self.fp8 else ("k16.f32.bf16.bf16", "1, 1, 0, 0")
        product = (
            f"{{ .reg .pred p; setp.ne.b32 p, %{sums + 2}, 0; "
            f"wgmma.mma_async.sync.aligned.m64n{self.columns}{kind} "
            f"{{{registers}}}, %{sums}, %{sums + 1}, p, {layout}; }}"
        )
        operands = ", ".join(f'"+f"(s[{i}])' for i in range(sums))
        lines = {
            "FP8": int(self.fp8),
            "BN": self.columns,
            "CH": self.channels,
            "KT": self.frames,
            "TAPS": self.taps,
            "GROUPS": self.groups,
            "STAGES": self.stages,
            "PRODUCT": f'"{product}"',
            "PRODUCT_SUMS(s)": operands,
        }
        return "".join(f"#define {name} {value}\n" for name, value in lines.items()) + _SOURCE.read_text()


class _Shape(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int)
        for name in ("frames", "height", "width", "chunks", "n_tiles", "channels", "phases", "pairs")
    ]


def choose(out_channels: int, in_channels: int, frames: int, taps: int) -> Kernel | None:
    """The kernel for a convolution of so many channels and taps; None where ours is not faster.

    Measured on an H200: docs/decisions/2026-11-29-fast-decode.md.
    """
    depth = 48 if in_channels % 48 == 0 else 64
    if in_channels % depth:
        return None
    if out_channels <= 16:
        return Kernel(8 if out_channels <= 8 else 16, depth, frames, taps, 2 if depth == 64 else 3)
    if out_channels % 96 == 0 and out_channels <= 192 and depth == 48:
        return Kernel(96, depth, frames, taps, 3)
    if in_channels % 64 or out_channels % 128:
        return None
    ours_is_faster = taps == 4 or out_channels == 384  # the library is made for powers of two
    return Kernel(128, 64, frames, taps, 2) if ours_is_faster else None


def choose_fp8(out_channels: int, in_channels: int) -> Kernel | None:
    """The kernel in fp8 for a 3 × 3 × 3 convolution; None where there is none."""
    pairs = in_channels // 2
    if out_channels % 96 == 0 and out_channels <= 192 and pairs % 48 == 0:
        return Kernel(96, 48, 3, 9, 3, fp8=True)
    if out_channels % 128 == 0 and pairs % 64 == 0:
        return Kernel(128, 64, 3, 9, 2, fp8=True)
    return None


def fills(x: torch.Tensor, kernel: Kernel, channels: int) -> bool:
    """Whether a convolution of `x` (T, H, W, C) gives the multiprocessors enough tiles to share evenly."""
    frames, height, width, _ = x.shape
    tiles = frames * -(-height // kernel.rows) * -(-width // _TILE_COLUMNS) * -(-channels // kernel.columns)
    return kernel.taps != 9 or kernel.columns != 128 or tiles >= 3 * _multiprocessors(x.device)


@functools.cache
def _multiprocessors(device: torch.device) -> int:
    count: int = torch.cuda.get_device_properties(device).multi_processor_count
    return count


def convolve(
    x: torch.Tensor,
    earlier: torch.Tensor | None,
    weights: torch.Tensor,
    kernel: Kernel,
    channels: int,
    *,
    phases: bool = False,
    pairs: bool = False,
    factors: torch.Tensor | None = None,
) -> torch.Tensor:
    """The convolution of `x`, contiguous bf16 (T, H, W, C), with `packed` weights, without a bias.

    `earlier`: the frames before, (KT - 1, H, W, C); None where KT is 1. Returns (T, H, W, channels).
    `phases`: of the picture with each pixel four times, (T, 2H, 2W, channels).
    `pairs`: `x` is (T, H, W, 2C), the channels of two frames; 2T frames result.
    `factors`: where `x` and `earlier` are e4m3, what output channels are multiplied by, float32 (channels,).
    """
    if kernel.fp8:
        assert earlier is not None
        x, earlier = x.view(torch.bfloat16), earlier.view(torch.bfloat16)  # two channels in the place of one
    frames, height, width, into = x.shape
    copies = 2 if pairs else 1
    scale = 2 if phases else 1
    y = x.new_empty(frames * copies, height * scale, width * scale, channels)
    shape = _Shape(
        frames * copies,
        height,
        width,
        into // copies // kernel.channels,
        -(-channels // kernel.columns),
        channels,
        4 if phases else 1,
        copies,
    )
    spots = -(-width // _TILE_COLUMNS) * -(-height // kernel.rows)
    tiles = shape.n_tiles * shape.phases * shape.frames * spots
    maps = [_map(x, kernel), _map(x if earlier is None else earlier, kernel)]
    function = _function(kernel, x.device.index)
    _launch(function, min(tiles, _multiprocessors(x.device)), kernel, maps, weights, y, shape, factors)
    return y


def _launch(
    function: Any,
    grid: int,
    kernel: Kernel,
    maps: list[tuple[Any, int]],
    weights: torch.Tensor,
    y: torch.Tensor,
    shape: _Shape,
    factors: torch.Tensor | None,
) -> None:
    tensors = (weights, y, factors)
    pointers = [ctypes.c_void_p(None if tensor is None else tensor.data_ptr()) for tensor in tensors]
    arguments = (ctypes.c_void_p * 6)(
        *(at for _, at in maps),
        ctypes.addressof(pointers[0]),
        ctypes.addressof(pointers[1]),
        ctypes.addressof(shape),
        ctypes.addressof(pointers[2]),
    )
    stream = ctypes.c_void_p(torch.cuda.current_stream(y.device).cuda_stream)
    threads = kernel.groups * 128 + 128
    with torch.cuda.device(y.device):
        cuda.check(
            cuda.driver().cuLaunchKernel(
                function, grid, 1, 1, threads, 1, 1, kernel.shared_bytes, stream, arguments, None
            )
        )


def _map(x: torch.Tensor, kernel: Kernel) -> tuple[Any, int]:
    """A tensor map of `x` as (8 channels, width, height, frames, groups of 8 channels), and its address.

    The map must be held until the launch has returned: other threads may drive it out of the cache.
    """
    frames, height, width, channels = x.shape
    groups, rows = kernel.channels // 8, kernel.rows + 2
    return _cached_map(x.data_ptr(), frames, height, width, channels, groups, rows)


@functools.lru_cache(maxsize=1024)
def _cached_map(
    address: int, frames: int, height: int, width: int, channels: int, groups: int, rows: int
) -> tuple[Any, int]:
    room = ctypes.create_string_buffer(128 + 64)
    at = ctypes.addressof(room) + 63 & ~63
    dims = (ctypes.c_uint64 * 5)(8, width, height, frames, channels // 8)
    line = width * channels * 2
    strides = (ctypes.c_uint64 * 4)(channels * 2, line, height * line, 16)
    box = (ctypes.c_uint32 * 5)(8, _TILE_COLUMNS + 2, rows, 1, groups)
    steps = (ctypes.c_uint32 * 5)(1, 1, 1, 1, 1)
    bf16, none, promote_256 = 9, 0, 3
    cuda.check(
        cuda.driver().cuTensorMapEncodeTiled(
            ctypes.c_void_p(at),
            bf16,
            5,
            ctypes.c_void_p(address),
            dims,
            strides,
            box,
            steps,
            none,
            none,
            promote_256,
            none,
        )
    )
    return room, at


@functools.cache
def _function(kernel: Kernel, device: int) -> ctypes.c_void_p:
    return cuda.load_function(kernel.source(), "convolve", kernel.shared_bytes, device)
