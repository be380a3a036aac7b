"""One step of the streaming decoder, with everything between the convolutions in one pass each.

Pictures lie channels last: contiguous (frames, height, width, channels). What a convolution adds (its bias)
and what is added to it (the shortcut) is left to the pass that reads its result next, see `ops.Sum`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers.models.autoencoders.autoencoder_kl_wan import (
    DupUp3D,
    WanAttentionBlock,
    WanCausalConv3d,
    WanDecoder3d,
    WanMidBlock,
    WanResample,
    WanResidualBlock,
    WanResidualUpBlock,
    WanUpBlock,
)

from pipelines.wan_vae import ops
from pipelines.wan_vae.convs import Convs
from pipelines.wan_vae.ops import Sum

UpBlock: TypeAlias = "WanUpBlock | WanResidualUpBlock"

CACHE_FRAMES = 2
"""Earlier frames under a causal kernel of three."""


@dataclass(slots=True)
class Window:
    """Room for a causal convolution's next input."""

    frames: torch.Tensor
    """(T, H, W, C), to be filled."""
    whole: torch.Tensor | None
    """(2 + T, H, W, C): behind the two frames before, where the convolution needs them in one piece."""
    scale: float | None = None
    """What the frames are to be multiplied by, where they are e4m3."""


class Caches:
    """The two frames before the next step's, of every causal convolution; zeros at first."""

    def __init__(self, convs: Convs) -> None:
        self.convs = convs
        self._kept: dict[WanCausalConv3d, torch.Tensor] = {}
        self._parked: dict[WanCausalConv3d, torch.Tensor] = {}

    def window(self, conv: WanCausalConv3d, like: torch.Tensor) -> Window:
        """Room for as many frames of the input of `conv` as `like` (T, H, W, any) has."""
        frames, height, width, _ = like.shape
        scale = self.convs.scale_of(conv)
        dtype = like.dtype if scale is None else torch.float8_e4m3fn
        if conv not in self._kept:
            self._kept[conv] = like.new_zeros(CACHE_FRAMES, height, width, conv.in_channels, dtype=dtype)
        if scale is not None or self.convs.takes(conv, like):
            return Window(like.new_empty(frames, height, width, conv.in_channels, dtype=dtype), None, scale)
        whole = like.new_empty(CACHE_FRAMES + frames, height, width, conv.in_channels)
        whole[:CACHE_FRAMES].copy_(self._kept[conv])
        return Window(whole[CACHE_FRAMES:], whole)

    def conv(self, conv: WanCausalConv3d, window: Window) -> Sum:
        """`conv` over a filled window, to (T, H, W, channels); keeps its last frames."""
        kept = self._kept[conv]
        if window.whole is not None:
            y = self.convs.library(conv, window.whole)
            kept.copy_(window.whole[-CACHE_FRAMES:])
            return y
        run = self.convs.ours if window.scale is None else self.convs.fp8
        y = run(conv, window.frames, kept)
        if window.frames.shape[0] >= CACHE_FRAMES:
            kept.copy_(window.frames[-CACHE_FRAMES:])
        else:
            kept[0].copy_(kept[1])
            kept[1].copy_(window.frames[0])
        return y

    def park(self) -> None:
        """Wait in page-locked memory of the host for `fetch`; device memory is free once this is copied."""
        for conv, kept in self._kept.items():
            if not kept.is_cuda:
                return
            if conv not in self._parked:
                self._parked[conv] = torch.empty(kept.shape, dtype=kept.dtype, pin_memory=True)
            self._parked[conv].copy_(kept, non_blocking=True)
        self._kept.clear()

    def fetch(self, device: torch.device) -> None:
        """Come back from the host, in the order of the device's current stream."""
        for conv, parked in self._parked.items():
            self._kept[conv] = parked.to(device, non_blocking=True)


def residual(caches: Caches, block: WanResidualBlock, value: Sum) -> Sum:
    """A residual block over `value`, which is added up on the way."""
    window = caches.window(block.conv1, value.y)
    ops.activate(value, block.norm1, window.frames, keep=True, scale=window.scale)
    x = value.y
    y = caches.conv(block.conv1, window)
    del window
    window = caches.window(block.conv2, y.y)
    ops.activate(y, block.norm2, window.frames, scale=window.scale)
    del y
    shortcut = block.conv_shortcut
    made = caches.conv(block.conv2, window)
    made.residual = x if isinstance(shortcut, torch.nn.Identity) else _pointwise_conv(shortcut, x)
    return made


@dataclass(slots=True)
class Middle:
    """What a walk has at hand between two of its blocks, before a doubling of the sides."""

    x: torch.Tensor
    """(T, H, W, C)."""
    entered: torch.Tensor | None
    """(T, H, W, any): what the block's shortcut needs, where it has one."""

    def part(self, rows: slice, columns: slice) -> Middle:
        """The same of some pixels, in memory of its own."""
        entered = None if self.entered is None else self.entered[:, rows, columns].contiguous()
        return Middle(self.x[:, rows, columns].contiguous(), entered)


class Step:
    """One walk through the decoder, in halves: what sees whole pictures, and what looks around a pixel."""

    def __init__(
        self, decoder: WanDecoder3d, caches: Caches, *, first: bool, stretch: int, taper: bool = False
    ) -> None:
        """`first`: of the first latent frame, which skips the doubling in time.

        `stretch`: frames (≥ 1) that the last resolution, which needs the most memory, takes at once.
        `taper`: the last of them go in ever shorter stretches, down to one frame.
        """
        self._decoder = decoder
        self._caches = caches
        self._first = first
        self._stretch = stretch
        self._taper = taper

    def run(self, latents: torch.Tensor) -> Iterator[torch.Tensor]:
        """Latents (t, h, w, z) after `post_quant_conv` to frames (t', H, W, channels), stretch by stretch."""
        cut = len(self._decoder.up_blocks) - 2
        yield from self.tail(self.head(latents, cut), cut)

    def head(self, latents: torch.Tensor, cut: int) -> Middle:
        """Latents (t, h, w, z) to what the residual blocks of up block `cut` make of them."""
        decoder = self._decoder
        window = self._caches.window(decoder.conv_in, latents)
        window.frames.copy_(latents)
        value = self._mid(decoder.mid_block, self._caches.conv(decoder.conv_in, window))
        del window
        for block in decoder.up_blocks[:cut]:
            entered, value = self._residuals(block, value)
            value = self._upsampled(block, entered, value)
        entered, value = self._residuals(decoder.up_blocks[cut], value)
        return Middle(ops.settle(value), entered)

    def tail(self, middle: Middle, cut: int) -> Iterator[torch.Tensor]:
        """From there to frames (t', H, W, channels), stretch by stretch."""
        x, entered = middle.x, middle.entered
        del middle
        blocks = self._decoder.up_blocks
        for block, following in zip(blocks[cut:-2], blocks[cut + 1 : -1], strict=True):
            entered, value = self._residuals(following, self._upsampled(block, entered, Sum(x)))
            x = ops.settle(value)
            del value
        step = max(1, self._stretch // self._growth(blocks[-2]))
        for piece in _pieces(x.shape[0], step, taper=self._taper):
            part = None if entered is None else entered[piece]
            # Bound to no name here: it would stay beside what the next piece grows to.
            yield from self._ending(blocks[-1], self._upsampled(blocks[-2], part, Sum(x[piece])))

    def frames_of(self, middle: Middle, cut: int) -> int:
        """How many frames `tail` makes."""
        return middle.x.shape[0] * math.prod(map(self._growth, self._decoder.up_blocks[cut:-1]))

    def _growth(self, block: UpBlock) -> int:
        return 2 if resample_of(block).mode == "upsample3d" and not self._first else 1

    def _ending(self, block: UpBlock, value: Sum) -> Iterator[torch.Tensor]:
        decoder = self._decoder
        _, value = self._residuals(block, value)
        window = self._caches.window(decoder.conv_out, value.y)
        ops.activate(value, decoder.norm_out, window.frames)
        del value
        y = self._caches.conv(decoder.conv_out, window)
        del window
        yield ops.settle(y)

    def _mid(self, block: WanMidBlock, value: Sum) -> Sum:
        value = residual(self._caches, block.resnets[0], value)
        for module, resnet in zip(block.attentions, block.resnets[1:], strict=True):
            value = residual(self._caches, resnet, attention(module, ops.settle(value)))
        return value

    def _residuals(self, block: UpBlock, value: Sum) -> tuple[torch.Tensor | None, Sum]:
        """What entered the block, where its shortcut needs that, and what its residual blocks make of it."""
        entered = None
        if isinstance(block, WanResidualUpBlock) and block.avg_shortcut is not None:
            entered = ops.settle(value)
        for resnet in block.resnets:
            value = residual(self._caches, resnet, value)
        return entered, value

    def _upsampled(self, block: UpBlock, entered: torch.Tensor | None, value: Sum) -> Sum:
        resample = resample_of(block)
        if resample.mode == "upsample3d" and not self._first:
            window = self._caches.window(resample.time_conv, value.y)
            ops.settle(value, window.frames)
            x = ops.settle(self._caches.conv(resample.time_conv, window))
            del window
        else:
            x = ops.settle(value)
        conv = resample.resample[1]
        grown = self._caches.convs.doubling(conv, x, pairs=x.shape[-1] != conv.in_channels)
        if entered is not None:
            grown.residual = _repeated(block.avg_shortcut, entered, first=self._first)
        return grown


def _pieces(frames: int, size: int, *, taper: bool) -> Iterator[slice]:
    start = 0
    while (left := frames - start) > 0:
        count = min(size, left) if left > size or not taper else (left + 1) // 2
        yield slice(start, start + count)
        start += count


def resample_of(block: UpBlock) -> WanResample:
    """The layer at a block's end that doubles the sides; the last block has none."""
    found = block.upsamplers[0] if isinstance(block, WanUpBlock) else block.upsampler
    assert isinstance(found, WanResample)
    return found


def _pointwise_conv(conv: WanCausalConv3d, x: torch.Tensor) -> torch.Tensor:
    return F.linear(x, conv.weight.flatten(1), conv.bias)


def attention(block: WanAttentionBlock, x: torch.Tensor) -> Sum:
    """Each frame's pixels attend to each other, with one head."""
    frames, height, width, channels = x.shape
    normed = ops.normalize(x, block.norm).view(frames, 1, height * width, channels)
    qkv = F.linear(normed, block.to_qkv.weight.flatten(1), block.to_qkv.bias)
    query, key, value = qkv.chunk(3, dim=-1)
    mixed = F.scaled_dot_product_attention(query, key, value)
    y = F.linear(mixed, block.proj.weight.flatten(1), block.proj.bias)
    return Sum(y.view(x.shape), residual=x)


def _repeated(shortcut: DupUp3D, x: torch.Tensor, *, first: bool) -> torch.Tensor:
    """Each value of (T, H, W, C) as often as the block grows; the first latent frame once in time."""
    frames, height, width, _ = x.shape
    time, space = shortcut.factor_t, shortcut.factor_s
    x = x.repeat_interleave(shortcut.repeats, dim=-1)
    x = x.view(frames, height, width, shortcut.out_channels, time, space, space)
    x = x.permute(0, 4, 1, 5, 2, 6, 3)
    if first:
        x = x[:, time - 1 :]
        time = 1
    return x.reshape(frames * time, height * space, width * space, shortcut.out_channels)
