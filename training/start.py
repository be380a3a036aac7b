"""Weights that a VAE starts from: what goes in comes out again, blurred, before anything is learned.

With torch's own, a clip drowns in the biases on its way through some forty layers, and hundreds of steps go
by before anything but the mean colour comes out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

_OWN = 0.3
"""Share of chance in layers that pass on what they get."""
_LEARNED = 0.1
"""Gain of the layers whose output is added to what passes by."""
_NOISE = -6.0
"""Logarithm of the latents' variance."""


def fill(vae: Any) -> None:
    """Overwrite the convolutions of a VAE, of either layout."""
    with torch.no_grad():
        for name, module in vae.named_modules():
            if isinstance(module, nn.Conv2d | nn.Conv3d):
                _fill(name, module)
        channels = vae.config.z_dim
        vae.quant_conv.weight[channels:] *= 0.1
        vae.quant_conv.bias[channels:] = _NOISE


def _fill(name: str, conv: nn.Conv2d | nn.Conv3d) -> None:
    fan_in = conv.weight[0].numel()
    conv.weight.normal_(std=fan_in**-0.5)
    assert conv.bias is not None
    conv.bias.zero_()
    if name.endswith(("conv1", "to_qkv")):
        return
    if name.endswith(("conv2", "proj")):
        conv.weight *= _LEARNED
        return
    conv.weight *= _OWN
    _pass_on(conv, halves=name.endswith("time_conv") and conv.out_channels > conv.in_channels)
    if name.endswith("conv_in"):
        conv.bias.normal_(std=0.5)  # the norms divide brightness away, but for what they can compare it with


def _pass_on(conv: nn.Conv2d | nn.Conv3d, *, halves: bool) -> None:
    """Add the identity from each input channel to its output channel, or to both of a pair of frames."""
    *times, height, width = conv.kernel_size
    # Where a kernel looks at pairs, it takes their mean; else the pixel itself, in the present frame.
    places = [(0, 0), (0, 1), (1, 0), (1, 1)] if conv.stride[-1] == 2 else [(height // 2, width // 2)]
    for channel in range(conv.out_channels):
        source = channel % conv.in_channels if halves else channel
        if source >= conv.in_channels:
            return
        kernel = conv.weight[channel, source]
        for y, x in places:
            (kernel[-1] if times else kernel)[y, x] += 1 / len(places)
