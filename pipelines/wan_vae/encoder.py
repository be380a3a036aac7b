"""Wan's VAE encoder, a few frames at a time, with the convolutions and passes of the decoder.

A model that starts from an image is given a video which mostly holds one picture: black, or the last one.
What the layers at the full frame rate, which take nearly all of the time, make of that does not change any
more once all that they can look back at is the same. It is then repeated instead of computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders.autoencoder_kl_wan import (
    WanCausalConv3d,
    WanResample,
    WanResidualBlock,
    patchify,
)

from pipelines.wan_vae import ops
from pipelines.wan_vae.convs import Convs, lay_channels_last
from pipelines.wan_vae.encoder_tiles import encode_grid, encode_tile, split_rates
from pipelines.wan_vae.fast import CACHE_FRAMES, Caches, attention, residual
from pipelines.wan_vae.memory import Tiling
from pipelines.wan_vae.ops import Sum
from pipelines.wan_vae.tiles import Size, Tiles

_FRAMES = 4
"""Of a video, for each latent frame after the first."""

Tell = Callable[[float], None]
"""Is told how much is done, 0 to 1; may raise."""


@torch.inference_mode()
def encode(
    vae: AutoencoderKLWan, video: torch.Tensor, tile: Tiling = "auto", tell: Tell | None = None
) -> torch.Tensor:
    """The mode of the latents of `video` as `AutoencoderKLWan.encode` has it, but for rounding.

    `video`: (1, 3, T, H, W) in [-1, 1], T = 4 k + 1, in the VAE's dtype, on its device. Returns
    (1, z_dim, k + 1, H / scale, W / scale) in that dtype. `tile`: as `StreamingDecoder` takes it, for the
    layers at the full frame rate, which need the most memory. `tell`: called before each step and after each
    tile of one with the share that is done; what it raises ends the encode.
    """
    hook = getattr(vae, "_hf_hook", None)
    if hook is not None:  # what accelerate would do before `AutoencoderKLWan.encode`
        hook.pre_forward(vae)
    lay_channels_last(vae.encoder)
    if vae.config.patch_size is not None:
        video = patchify(video, patch_size=vae.config.patch_size)
    frames = video[0].permute(1, 2, 3, 0)
    walk = _Walk(vae, frames, encode_tile(vae, frames, tile), tell or (lambda share: None))
    parts = [walk.step(frames[:1])]
    parts += [walk.step(frames[at : at + _FRAMES]) for at in range(1, frames.shape[0], _FRAMES)]
    moments = F.linear(torch.cat(parts), vae.quant_conv.weight.flatten(1), vae.quant_conv.bias)
    return moments[..., : vae.config.z_dim].permute(3, 0, 1, 2).unsqueeze(0).contiguous()


class _Walk:
    """One video's way through the encoder."""

    def __init__(self, vae: Any, frames: torch.Tensor, size: Size | None, tell: Tell) -> None:
        self._encoder = vae.encoder
        self._caches = Caches(Convs(frames.device, frames.dtype))
        self._tiles: Tiles | None = None
        if size is not None:
            places = encode_grid(vae, frames.shape[1], frames.shape[2], size)
            self._tiles = Tiles(*places, self._caches.convs, frames.device)
        self._before: dict[WanCausalConv3d, torch.Tensor] = {}
        self._fast, self._slow = split_rates(vae)
        self._looks_back = CACHE_FRAMES * (1 + _causal(self._fast))
        self._still = 0
        self._last: torch.Tensor | None = None
        self._made: torch.Tensor | None = None
        self._tell = tell
        self._done, self._all = 0, frames.shape[0]

    def step(self, frames: torch.Tensor) -> torch.Tensor:
        """(T, H, W, C), one frame or four, to (1, h, w, 2 z_dim) before `quant_conv`."""
        self._tell(self._done / self._all)
        self._still = self._still + frames.shape[0] if self._is_still(frames) else 0
        self._last = frames[-1]
        # The step before this one had to see nothing else from its first frame on, for all to be as its own.
        if self._made is None or self._still < self._looks_back + 2 * _FRAMES - 1:
            self._made = self._full_rate(frames)
        self._done += frames.shape[0]
        value = Sum(self._made.clone())  # the layers write over what they are given
        for block in self._slow:
            value = self._block(self._caches, block, value)
        value = residual(self._caches, self._encoder.mid_block.resnets[0], value)
        for module, resnet in zip(
            self._encoder.mid_block.attentions, self._encoder.mid_block.resnets[1:], strict=True
        ):
            value = residual(self._caches, resnet, attention(module, ops.settle(value)))
        window = self._caches.window(self._encoder.conv_out, value.y)
        ops.activate(value, self._encoder.norm_out, window.frames)
        return ops.settle(self._caches.conv(self._encoder.conv_out, window))

    def _is_still(self, frames: torch.Tensor) -> bool:
        return self._last is not None and bool((frames == self._last).all())

    def _full_rate(self, frames: torch.Tensor) -> torch.Tensor:
        if self._tiles is None:
            return self._ahead(self._caches, frames)
        # As the decoder does behind its cut, see `tiles`.
        made: torch.Tensor | None = None
        for number, (row, column, caches) in enumerate(self._tiles, 1):
            part = self._ahead(caches, frames[:, row.taken, column.taken])
            if made is None:
                made = part.new_empty(part.shape[0], *self._tiles.sides, part.shape[-1])
            made[:, row.place, column.place] = part[:, row.kept, column.kept]
            self._tell((self._done + number / len(self._tiles) * frames.shape[0]) / self._all)
        assert made is not None
        return made

    def _ahead(self, caches: Caches, frames: torch.Tensor) -> torch.Tensor:
        window = caches.window(self._encoder.conv_in, frames)
        window.frames.copy_(frames)
        value = caches.conv(self._encoder.conv_in, window)
        for block in self._fast:
            value = self._block(caches, block, value)
        return ops.settle(value)

    def _block(self, caches: Caches, block: Any, value: Sum) -> Sum:
        if isinstance(block, WanResidualBlock):
            return residual(caches, block, value)
        if isinstance(block, WanResample):
            return self._halved(block, ops.settle(value))
        entered = ops.settle(value)
        for resnet in block.resnets:
            value = residual(caches, resnet, value)
        if block.downsampler is not None:
            value = self._halved(block.downsampler, ops.settle(value))
        averaged = block.avg_shortcut(entered.permute(3, 0, 1, 2).unsqueeze(0).contiguous())
        return Sum(ops.settle(value), residual=averaged[0].permute(1, 2, 3, 0).contiguous())

    def _halved(self, resample: WanResample, x: torch.Tensor) -> Sum:
        """Half as wide and high, and half as many frames where the layer does that; the first stays alone."""
        conv = resample.resample[1]
        y = F.conv2d(F.pad(x.permute(0, 3, 1, 2), (0, 1, 0, 1)), conv.weight, conv.bias, stride=2)
        y = y.permute(0, 2, 3, 1).contiguous()
        if resample.mode == "downsample2d":
            return Sum(y)
        before, self._before[resample.time_conv] = self._before.get(resample.time_conv), y[-1:].clone()
        if before is None:
            return Sum(y)
        conv3d = resample.time_conv
        frames = torch.cat([before, y]).permute(3, 0, 1, 2).unsqueeze(0)
        made = F.conv3d(frames, conv3d.weight, conv3d.bias, stride=conv3d.stride)
        return Sum(made[0].permute(1, 2, 3, 0).contiguous())


def _causal(blocks: list[Any]) -> int:
    modules = (module for block in blocks for module in block.modules())
    return sum(isinstance(module, WanCausalConv3d) and module.kernel_size[0] > 1 for module in modules)
