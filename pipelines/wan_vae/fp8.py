"""The decoder's convolutions in fp8 (e4m3): where there are any, which they are, what scales their input.

docs/decisions/2026-11-29-fp8.md says what they cost and gain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d, WanResidualBlock, WanRMS_norm

from pipelines.wan_vae import cuda
from pipelines.wan_vae.conv import choose_fp8
from pipelines.wan_vae.convs import HOPPER
from pipelines.wan_vae.packing import LARGEST_FP8


def missing(device: torch.device, dtype: torch.dtype) -> str | None:
    """What a decode in fp8 needs and does not have there, as the end of a sentence; None: nothing."""
    if device.type != "cuda":
        return f"it needs a Hopper GPU (compute capability 9.0), and the device is {device}"
    if (found := torch.cuda.get_device_capability(device)) != HOPPER:
        return f"it needs a Hopper GPU (compute capability 9.0), and {device} has {found[0]}.{found[1]}"
    if dtype != torch.bfloat16:
        return f"it needs dtype bfloat16, and it is {str(dtype).removeprefix('torch.')}"
    try:
        cuda.compiler()
    except RuntimeError as error:
        return f"it needs what is not there: {error}"
    return None


def low_convs(decoder: torch.nn.Module) -> Mapping[WanCausalConv3d, WanRMS_norm]:
    """The convolutions that are done in e4m3, each with the norm which, with SiLU, makes its input.

    They are the 3 × 3 × 3 ones of residual blocks, nearly all of the arithmetic, where their channels suit
    our kernel. Empty for a decoder with few channels.
    """
    blocks = [module for module in decoder.modules() if isinstance(module, WanResidualBlock)]
    pairs = [pair for block in blocks for pair in ((block.conv1, block.norm1), (block.conv2, block.norm2))]
    return {conv: norm for conv, norm in pairs if choose_fp8(conv.out_channels, conv.in_channels) is not None}


def input_scales(decoder: torch.nn.Module) -> Mapping[WanCausalConv3d, float]:
    """What the input of each of `low_convs` is multiplied by.

    The largest power of two with which no value can leave e4m3's range, whatever is decoded: behind a norm
    and SiLU none passes √channels times the norm's largest weight.

    Raises:
        ValueError: that is no number.
    """
    convs = low_convs(decoder)
    if not convs:
        return {}
    weights = torch.stack([norm.gamma.detach().abs().amax().float() for norm in convs.values()]).tolist()
    if not all(map(math.isfinite, weights)):
        raise ValueError("decoder: a norm of its weights is NaN or infinite, where fp8 needs its largest")
    return {
        conv: 2.0 ** math.floor(math.log2(LARGEST_FP8 / max(math.sqrt(conv.in_channels) * weight, 1e-6)))
        for conv, weight in zip(convs, weights, strict=True)
    }
