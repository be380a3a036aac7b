"""What the decoder would lose by convolutions in fp8 (e4m3), beside bfloat16: simulated, on any device.

    python -m benchmarks.fp8_error [--vae z16] [--size 192x128] [--frames 9] [--seeds 2]

The 3 × 3 × 3 convolutions of the residual blocks (nearly all of the arithmetic) get inputs and weights that
were rounded to e4m3; sums are float32, results and everything else bfloat16. Weights have a scale for each
output channel. Inputs have a power of two for each layer: `static` by the norm's bound, which no value can
pass (√channels, times its weights, which are 1 here), `dynamic` by the largest value of a step. The error is
that of the frames against a float32 decode of the same random weights; a trained VAE may lose more or less.
"""

from __future__ import annotations

import argparse
import copy
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from diffusers.models.autoencoders.autoencoder_kl_wan import WanCausalConv3d

from benchmarks.decode import make_vae
from pipelines.wan_vae import StreamingDecoder, decoder
from pipelines.wan_vae.convs import Convs
from pipelines.wan_vae.ops import Sum

_LARGEST = 448.0
"""Of e4m3."""
_FEWEST_CHANNELS = 48
"""Of what goes in and comes out: the first and the last convolution stay as they are."""

Scale = Callable[[torch.Tensor, WanCausalConv3d], float]


def static(x: torch.Tensor, conv: WanCausalConv3d) -> float:
    """A power of two that no value behind a norm can make too large, but for the norm's own weights of 1."""
    return 2.0 ** math.floor(math.log2(_LARGEST / math.sqrt(conv.in_channels)))


def dynamic(x: torch.Tensor, conv: WanCausalConv3d) -> float:
    """The largest power of two that keeps all values of a step."""
    return 2.0 ** math.floor(math.log2(_LARGEST / max(1e-12, float(x.abs().max()))))


def rounded(x: torch.Tensor) -> torch.Tensor:
    """To the nearest value of e4m3, as float32."""
    return x.float().clamp(-_LARGEST, _LARGEST).to(torch.float8_e4m3fn).float()


class Simulated(Convs):
    """Convolutions with inputs and weights of e4m3, of layers with at most `most` channels."""

    scale: Scale = staticmethod(static)
    most = 10**6

    def library(self, conv: WanCausalConv3d, window: torch.Tensor) -> Sum:
        """See `Convs.library`."""
        fewest = min(conv.in_channels, conv.out_channels)
        if conv.kernel_size != (3, 3, 3) or fewest < _FEWEST_CHANNELS or conv.in_channels > self.most:
            return super().library(conv, window)
        by = type(self).scale(window, conv)
        weight = conv.weight.float()
        each = weight.flatten(1).abs().amax(1).clamp(min=1e-12) / _LARGEST
        weight = rounded(weight / each.view(-1, 1, 1, 1, 1))
        x = rounded(window.permute(3, 0, 1, 2).unsqueeze(0) * by)
        y = F.conv3d(x, weight, padding=(0, 1, 1))[0].permute(1, 2, 3, 0)
        y = y * (each / by) + (0 if conv.bias is None else conv.bias.float())
        return Sum(y.to(window.dtype).contiguous())


def main() -> None:
    """Print the table."""
    options = _options()
    torch.set_grad_enabled(False)
    sums: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        vae, latents = _case(options, seed)
        truth = vae.decode(latents).sample[0]
        low = copy.deepcopy(vae).bfloat16()
        given = latents.bfloat16()
        made = {"diffusers, bfloat16": low.decode(given).sample[0]}
        kinds: dict[str, tuple[type[Convs], Scale, int]] = {
            "ours, bfloat16": (Convs, static, 0),
            "fp8, static": (Simulated, static, 10**6),
            "fp8, dynamic": (Simulated, dynamic, 10**6),
            "fp8, static, at most 192 channels": (Simulated, static, 192),
        }
        for name, (kind, scale, most) in kinds.items():
            Simulated.scale, Simulated.most = staticmethod(scale), most
            vars(decoder)["Convs"] = kind  # where the decoder takes them from
            made[name] = torch.cat(list(StreamingDecoder(low).decode(given)), dim=1)
        for name, frames in made.items():
            error = (frames.float() - truth).abs()
            row = [float(error.mean()), float(error.square().mean()), float(truth.abs().mean())]
            sums[name] = [a + b for a, b in zip(sums.get(name, [0.0] * 3), row, strict=True)]
    for name, row in sums.items():
        mean, square, size = (value / options.seeds for value in row)
        psnr = 10 * math.log10(4 / square)
        print(f"{name:35} mean error {mean:.5f}, PSNR {psnr:.1f} dB, frames' mean size {size:.3f}")


def _case(options: argparse.Namespace, seed: int) -> tuple[Any, torch.Tensor]:
    vae = make_vae(options.vae)
    width, height = map(int, options.size.split("x"))
    scale = vae.config.scale_factor_spatial
    shape = (1, vae.config.z_dim, (options.frames - 1) // 4 + 1, height // scale, width // scale)
    return vae.eval(), torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vae", choices=["tiny", "mid", "z16", "z48"], default="z16")
    parser.add_argument("--size", default="192x128")
    parser.add_argument("--frames", type=int, default=9)
    parser.add_argument("--seeds", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()
