"""Random weights that behave: pictures smooth in space, moving in time, of moderate contrast.

They are drawn by parameter name, uniformly, from integers of a generator whose stream does not depend on the
processor, so that the same weights come out everywhere.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from fnmatch import fnmatchcase

import torch
from torch import nn

LOW_PASS = {1: (1.0,), 2: (0.5, 0.5), 3: (0.25, 0.5, 0.25)}
"""Kernel profile by size. After a nearest 2x upsampling the one of size 3 is bilinear interpolation."""

TAPS = {1: (1.0,), 3: (0.15, 0.25, 0.6)}
"""Weights of the frames under a kernel. The last, the present one, counts most: at the start it is alone."""

_AFTER_SILU = ("conv1.weight", "conv2.weight", "conv_out.weight")


def fill(model: nn.Module, seed: str, gains: Mapping[str, float]) -> None:
    """Overwrite every parameter of `model`.

    `gains`: pattern of parameter names → factor, 1 where none matches, the last match counts. A matrix of
    gain 1 keeps the variance of what passes through it; the weights of a norm are its gain.
    """
    modules = dict(model.named_modules())
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            owner = modules[name.rpartition(".")[0]]
            gain = gain_of(name, gains)
            parameter.copy_(_value(owner, name, parameter, seed) * gain)


def gain_of(name: str, gains: Mapping[str, float]) -> float:
    """The factor of a parameter: see `fill`."""
    found = [gain for pattern, gain in gains.items() if fnmatchcase(name, pattern)]
    return found[-1] if found else 1.0


def noise(name: str, shape: torch.Size | tuple[int, ...], seed: str) -> torch.Tensor:
    """Uniform float32 noise of variance 1 that depends on `name` and `seed` only."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    return (torch.rand(shape, generator=generator) * 2 - 1) * math.sqrt(3)


def _value(owner: nn.Module, name: str, parameter: nn.Parameter, seed: str) -> torch.Tensor:
    if name.endswith("bias"):
        return 0.1 * noise(name, parameter.shape, seed)
    if name.endswith("scale_shift_table"):
        return modulation(name, parameter.shape, seed)
    if isinstance(owner, nn.Conv2d | nn.Conv3d):
        return _kernel(owner, name, seed)
    if isinstance(owner, nn.Linear):
        return noise(name, parameter.shape, seed) / math.sqrt(owner.in_features)
    if isinstance(owner, nn.Embedding):
        return noise(name, parameter.shape, seed)
    return torch.ones(parameter.shape)


def modulation(name: str, shape: torch.Size, seed: str) -> torch.Tensor:
    """Shifts and scales of adaptive norms near 0, gates (rows 2 and 5 of a block's six) near 1."""
    table = 0.3 * noise(name, shape, seed)
    table[:, 2::3] += 1
    return table


def _kernel(conv: nn.Conv2d | nn.Conv3d, name: str, seed: str) -> torch.Tensor:
    """Channels mix at random; in space every kernel is the same low-pass."""
    *times, height, width = conv.kernel_size
    subpixels = _subpixels(conv, name)
    channels = (conv.out_channels // subpixels**2, conv.in_channels)
    mix = _mix(name, channels, times[0] if times else 1, seed)
    if name.endswith(_AFTER_SILU):
        mix -= mix.mean(dim=1, keepdim=True)  # what enters is positive on average: do not pass that on
    space = torch.stack(
        [
            _profile(height, subpixels, y)[:, None] * _profile(width, subpixels, x)
            for x, y in _offsets(subpixels)
        ]
    )
    kernel = mix[:, None, :, :, None, None] * space[None, :, None, None]
    return kernel.flatten(0, 1).reshape(conv.weight.shape) / math.sqrt(conv.in_channels)


def _subpixels(conv: nn.Conv2d | nn.Conv3d, name: str) -> int:
    """Side of the patch that the last convolution of a decoder packs into its channels."""
    return math.isqrt(conv.out_channels // 3) if name == "decoder.conv_out.weight" else 1


def _offsets(subpixels: int) -> list[tuple[int, int]]:
    """(x, y) of each pixel of a patch, in the order in which the VAE unpacks its channels."""
    return [(x, y) for x in range(subpixels) for y in range(subpixels)]


def _profile(size: int, subpixels: int, offset: int) -> torch.Tensor:
    if subpixels == 1:
        return torch.tensor(LOW_PASS[size])
    return torch.tensor(((0.25, 0.75, 0.0), (0.0, 0.75, 0.25))[offset])


def _mix(name: str, channels: tuple[int, int], times: int, seed: str) -> torch.Tensor:
    """(out, in, time): mostly the same for all taps, so that neighbouring frames resemble each other."""
    alike = noise(f"{name} alike", (*channels, 1), seed)
    if name.endswith("time_conv.weight") and channels[0] > channels[1]:
        alike = alike[: channels[1]].repeat(2, 1, 1)  # its two halves become neighbouring frames
    if name == "decoder.conv_out.weight":
        alike = 0.9 * alike[:1] + 0.4 * alike  # colours of low saturation, for a codec that halves the chroma
    own = noise(f"{name} own", (*channels, times), seed)
    return (0.95 * alike + 0.3 * own) * torch.tensor(TAPS[times])
