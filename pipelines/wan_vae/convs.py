"""A decoder's convolutions: by our kernel where it applies (`pipelines.wan_vae.conv`), else by the library."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d

from pipelines.wan_vae import conv as ours
from pipelines.wan_vae import ops

_HOPPER = (9, 0)


class Convs:
    """Convolutions of channels-last pictures without their biases; keeps weights packed for our kernel."""

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        hopper = device.type == "cuda" and torch.cuda.get_device_capability(device) == _HOPPER
        self._ours = hopper and dtype == torch.bfloat16
        self._packed: dict[torch.nn.Module, torch.Tensor] = {}

    def takes(self, conv: WanCausalConv3d, x: torch.Tensor) -> bool:
        """Whether our kernel is the one for `conv` over frames like `x`: it reads the earlier frames in place."""
        kernel = self._causal_kernel(conv)
        return kernel is not None and ours.fills(x, kernel, conv.out_channels)

    def ours(self, conv: WanCausalConv3d, x: torch.Tensor, earlier: torch.Tensor) -> torch.Tensor:
        """`conv` over `earlier` (2, H, W, C) and `x` (T, H, W, C), to (T, H, W, channels)."""
        kernel = self._causal_kernel(conv)
        assert kernel is not None
        return ours.convolve(x, earlier, self._weights(conv, kernel), kernel, conv.out_channels)

    def library(self, conv: WanCausalConv3d, window: torch.Tensor) -> torch.Tensor:
        """`conv` over (2 + T, H, W, C), to (T, H, W, channels)."""
        _, high, wide = conv.kernel_size
        x = window.permute(3, 0, 1, 2).unsqueeze(0)
        y = F.conv3d(x, conv.weight, None, padding=(0, high // 2, wide // 2))
        return _channels_last(y.squeeze(0), (1, 2, 3, 0))

    def doubling(self, conv: torch.nn.Conv2d, x: torch.Tensor, *, pairs: bool) -> torch.Tensor:
        """`conv` (3 × 3) over `x` (T, H, W, C) with each pixel four times, to (T, 2H, 2W, channels).

        `pairs`: `x` holds two frames' channels, (T, H, W, 2C); 2T frames result.
        """
        kernel = ours.choose(conv.out_channels, conv.in_channels, 1, 4) if self._ours else None
        if kernel is not None:
            weights = self._weights(conv, kernel, phases=True)
            return ours.convolve(x, None, weights, kernel, conv.out_channels, phases=True, pairs=pairs)
        x = ops.doubled(x, pairs=pairs)
        y = F.conv2d(x.permute(0, 3, 1, 2), conv.weight, None, padding=1)
        return _channels_last(y, (0, 2, 3, 1))

    def _causal_kernel(self, conv: WanCausalConv3d) -> ours.Kernel | None:
        if not self._ours or conv.kernel_size != (3, 3, 3):
            return None
        return ours.choose(conv.out_channels, conv.in_channels, 3, 9)

    def _weights(self, conv: torch.nn.Module, kernel: ours.Kernel, *, phases: bool = False) -> torch.Tensor:
        if (weights := self._packed.get(conv)) is None:
            weights = self._packed[conv] = ours.packed(conv.weight, kernel, phases=phases)
        return weights


def _channels_last(y: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    return y.permute(order).contiguous()  # which costs nothing where the library kept the layout
