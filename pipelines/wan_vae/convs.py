"""A decoder's convolutions: by our kernel (`pipelines.wan_vae.conv`) where it is faster, or the library's."""

from __future__ import annotations

from collections.abc import Mapping, Set

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d

from pipelines.wan_vae import conv as hopper
from pipelines.wan_vae import cuda, ops, packing
from pipelines.wan_vae.ops import Sum

HOPPER = (9, 0)
"""The compute capability that our kernel is for."""


class Convs:
    """Convolutions of channels-last pictures; keeps weights packed for our kernel.

    On a CUDA device the biases are left to whoever reads the results, who saves a pass over memory by it.
    """

    def __init__(
        self, device: torch.device, dtype: torch.dtype, scales: Mapping[WanCausalConv3d, float] | None = None
    ) -> None:
        """`scales`: of convolutions that are done in e4m3, see `fp8.input_scales`; only where `fp8.missing`
        finds nothing.
        """
        is_hopper = device.type == "cuda" and torch.cuda.get_device_capability(device) == HOPPER
        self._biased = device.type != "cuda"
        self._ours = is_hopper and dtype == torch.bfloat16 and cuda.can_compile()
        self._scales = scales or {}
        self._packed: dict[torch.nn.Module, torch.Tensor] = {}
        self._packed_fp8: dict[torch.nn.Module, tuple[torch.Tensor, torch.Tensor]] = {}

    def takes(self, conv: WanCausalConv3d, x: torch.Tensor) -> bool:
        """Whether ours is the kernel for `conv` over frames like `x`; it reads the earlier ones in place."""
        kernel = _causal_kernel(conv) if self._ours else None
        return kernel is not None and hopper.fills(x, kernel, conv.out_channels)

    def ours(self, conv: WanCausalConv3d, x: torch.Tensor, earlier: torch.Tensor) -> Sum:
        """`conv` over `earlier` (2, H, W, C) and `x` (T, H, W, C), to (T, H, W, channels)."""
        kernel = _causal_kernel(conv)
        assert kernel is not None
        y = hopper.convolve(x, earlier, self._weights(conv, kernel), kernel, conv.out_channels)
        return Sum(y, conv.bias)

    def scale_of(self, conv: WanCausalConv3d) -> float | None:
        """What the input of `conv` is multiplied by in e4m3; None: `conv` is not done in e4m3."""
        return self._scales.get(conv)

    def fp8(self, conv: WanCausalConv3d, x: torch.Tensor, earlier: torch.Tensor) -> Sum:
        """As `ours`, over e4m3 that was multiplied by `scale_of(conv)`."""
        kernel = hopper.choose_fp8(conv.out_channels, conv.in_channels)
        assert kernel is not None
        if conv not in self._packed_fp8:
            weights, factors = packing.packed_fp8(conv.weight, kernel)
            self._packed_fp8[conv] = weights, factors / self._scales[conv]
        weights, factors = self._packed_fp8[conv]
        y = hopper.convolve(x, earlier, weights, kernel, conv.out_channels, factors=factors)
        return Sum(y, conv.bias)

    def library(self, conv: WanCausalConv3d, window: torch.Tensor) -> Sum:
        """`conv` over (2 + T, H, W, C), to (T, H, W, channels)."""
        _, high, wide = conv.kernel_size
        x = window.permute(3, 0, 1, 2).unsqueeze(0)
        y = _conv3d(x, conv.weight, self._inside(conv.bias), (0, high // 2, wide // 2))
        return Sum(_channels_last(y.squeeze(0), (1, 2, 3, 0)), self._outside(conv.bias))

    def doubling(self, conv: torch.nn.Conv2d, x: torch.Tensor, *, pairs: bool) -> Sum:
        """`conv` (3 × 3) over `x` (T, H, W, C) with each pixel four times, to (T, 2H, 2W, channels).

        `pairs`: `x` holds two frames' channels, (T, H, W, 2C); 2T frames result.
        """
        kernel = hopper.choose(conv.out_channels, conv.in_channels, 1, 4) if self._ours else None
        if kernel is not None:
            weights = self._weights(conv, kernel, phases=True)
            y = hopper.convolve(x, None, weights, kernel, conv.out_channels, phases=True, pairs=pairs)
            return Sum(y, conv.bias)
        x = ops.doubled(x, pairs=pairs)
        y = F.conv2d(x.permute(0, 3, 1, 2), conv.weight, self._inside(conv.bias), padding=1)
        return Sum(_channels_last(y, (0, 2, 3, 1)), self._outside(conv.bias))

    def _inside(self, bias: torch.Tensor | None) -> torch.Tensor | None:
        return bias if self._biased else None

    def _outside(self, bias: torch.Tensor | None) -> torch.Tensor | None:
        return None if self._biased else bias

    def _weights(
        self, conv: torch.nn.Conv2d | torch.nn.Conv3d, kernel: hopper.Kernel, *, phases: bool = False
    ) -> torch.Tensor:
        if (weights := self._packed.get(conv)) is None:
            weights = self._packed[conv] = packing.packed(conv.weight, kernel, phases=phases)
        return weights


def packed_bytes(decoder: torch.nn.Module, low: Set[torch.nn.Module]) -> int:
    """What a decode's `Convs` has packed in the end on a Hopper GPU, for a bfloat16 VAE; `low`: in e4m3."""
    return sum(_packed_bytes(module, module in low) for module in decoder.modules())


def _packed_bytes(conv: torch.nn.Module, low: bool) -> int:
    """As `packing` makes it."""
    if isinstance(conv, WanCausalConv3d):
        if low:
            kernel, values, size = hopper.choose_fp8(conv.out_channels, conv.in_channels), 27, 1
        else:
            kernel, values, size = _causal_kernel(conv), 27, 2
    elif isinstance(conv, torch.nn.Conv2d) and conv.kernel_size == (3, 3):
        kernel, values, size = hopper.choose(conv.out_channels, conv.in_channels, 1, 4), 16, 2
    else:
        return 0
    if kernel is None:
        return 0
    return size * values * conv.in_channels * -(-conv.out_channels // kernel.columns) * kernel.columns


def _causal_kernel(conv: WanCausalConv3d) -> hopper.Kernel | None:
    if conv.kernel_size != (3, 3, 3):
        return None
    return hopper.choose(conv.out_channels, conv.in_channels, 3, 9)


def lay_channels_last(module: torch.nn.Module) -> None:
    """Weights in the order in which the pictures lie, or the library would reorder one of them each time."""
    for conv in module.modules():
        if isinstance(conv, torch.nn.Conv3d):
            conv.weight.data = conv.weight.data.contiguous(memory_format=torch.channels_last_3d)
        elif isinstance(conv, torch.nn.Conv2d):
            conv.weight.data = conv.weight.data.contiguous(memory_format=torch.channels_last)


def _conv3d(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, padding: tuple[int, ...]
) -> torch.Tensor:
    if x.is_cuda or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]  # torch's
        return F.conv3d(x, weight, bias, padding=padding)
    # `conv3d` passes small convolutions on to a loop that takes ten times as long.
    ones = (1, 1, 1)
    return torch.mkldnn_convolution(x, weight, bias, padding, ones, ones, 1)


def _channels_last(y: torch.Tensor, order: tuple[int, ...]) -> torch.Tensor:
    return y.permute(order).contiguous()  # which costs nothing where the library kept the layout
